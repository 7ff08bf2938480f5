// Pre-tokenization: text into words, as GPT-2's regular expression and as BERT's rules have it, and BERT's
// normalization before that. Text is valid UTF-8.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/tokenizer/unicode.h"

namespace recollect {

// The end of the word at `at` by
// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
std::size_t gpt2_word_end(const Characters& characters, std::string_view text, std::size_t at);

template <typename F>
void for_each_gpt2_word(const Characters& characters, std::string_view text, F word) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = gpt2_word_end(characters, text, at);
    word(text.substr(at, end - at));
    at = end;
  }
}

// Normalized text: words lie between blanks, and a character of punctuation is one.
template <typename F>
void for_each_bert_word(const Characters& characters, std::string_view text, F word) {
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t here = at;
    const uint32_t point = decode_utf8(text, at);
    const bool punctuation = characters.is_punctuation(point);
    if (!punctuation && point != ' ') continue;
    if (begin < here) word(text.substr(begin, here - begin));
    if (punctuation) word(text.substr(here, at - here));
    begin = at;
  }
  if (begin < text.size()) word(text.substr(begin));
}

struct BertOptions {
  bool lowercase = true, strip_accents = true, space_cjk = true;
};

class BertNormalizer {
 public:
  // What it works with, and leaves; one per thread.
  struct Memory {
    std::string text;
    std::vector<uint32_t> origins;  // of each code point of `text`, where asked for: the number of its own
    std::vector<TracedPoint> points;
  };

  BertNormalizer(const Characters& characters, const BertOptions& options);
  // Control characters go, blanks become ' ', and as the options say.
  void apply(std::string_view text, Memory& memory, bool trace) const;

 private:
  template <bool kTrace>
  void apply(std::string_view text, Memory& memory) const;
  std::size_t apply_foreign(std::string_view text, std::size_t at, uint32_t& number, Memory& memory) const;

  const Characters& characters_;
  BertOptions options_;
  std::array<char, 128> ascii_;  // 0: goes
};

}  // namespace recollect
