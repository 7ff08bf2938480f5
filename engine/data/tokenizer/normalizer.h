// What is done to a text before it is cut into words: one step of tokenizer.json's "normalizer".
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/tokenizer/regex.h"
#include "engine/data/tokenizer/traced_text.h"
#include "engine/data/tokenizer/unicode.h"

namespace recollect {

// What steps work with and leave behind; one per thread.
struct StepMemory {
  RegexMemory regex;
};

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Called by many threads. The text is not empty.
  virtual void apply(TracedText& text, StepMemory& memory) const = 0;
  // Whether a text that is cut before a single blank, between letters or digits, becomes the same in its parts, where
  // all but the first one have `continues`.
  virtual bool allows_cuts() const { return true; }
  // What becomes of a single blank.
  virtual std::string blank_after(std::string_view blank) const { return std::string(blank); }
};

struct BertOptions {
  bool lowercase = true, strip_accents = true, space_cjk = true, clean = true;
};

std::unique_ptr<Normalizer> make_bert_normalizer(const Characters& characters, const BertOptions& options);
std::unique_ptr<Normalizer> make_form_normalizer(const Characters& characters, NormalForm form);
std::unique_ptr<Normalizer> make_lowercase(const Characters& characters);
std::unique_ptr<Normalizer> make_strip(const Characters& characters, bool left, bool right);
std::unique_ptr<Normalizer> make_strip_accents(const Characters& characters);
std::unique_ptr<Normalizer> make_nmt();
std::unique_ptr<Normalizer> make_prepend(const std::string& text);
std::unique_ptr<Normalizer> make_replace(Pattern pattern, const std::string& content);
std::unique_ptr<Normalizer> make_byte_spelling();
// SentencePiece's table of characters and what they become. Error kInput naming `where`.
std::unique_ptr<Normalizer> make_charsmap(const Characters& characters, const std::string& bytes,
                                          const std::string& where);

using Normalizers = std::vector<std::unique_ptr<Normalizer>>;

}  // namespace recollect
