// How a normalized text is cut into words: one step of tokenizer.json's "pre_tokenizer".
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/spelled.h"
#include "engine/data/tokenizer/normalizer.h"

namespace recollect {

// A text on its way to words. Steps cut the pieces further, or write the whole text anew.
class Pieces {
 public:
  struct Piece {
    uint32_t begin = 0, end = 0;  // bytes of the text
  };

  // All of it is one piece. `spans`: null where it is not traced.
  void start(std::string_view text, const TextSpan* spans, uint32_t base);

  std::string_view text() const { return text_; }
  std::string_view of(const Piece& piece) const { return text_.substr(piece.begin, piece.end - piece.begin); }
  const std::vector<Piece>& all() const { return pieces_; }
  bool traced() const { return spans_ != nullptr; }
  // What bytes of the text stand for.
  TextSpan span(std::size_t begin, std::size_t end) const {
    return {spans_[begin].begin, spans_[end - 1].end};
  }
  // Whether the piece begins with the original text, as far as that is known.
  bool begins_original(const Piece& piece) const {
    return traced() ? spans_[piece.begin].begin == 0 : base_ == 0 && piece.begin == 0;
  }

  // Calls cut(piece, add) for every piece; add(begin, end) makes a new one, unless it is empty.
  template <typename F>
  void split(F cut) {
    next_.clear();
    const auto add = [this](std::size_t begin, std::size_t end) {
      if (begin < end) next_.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
    };
    for (const Piece& piece : pieces_) cut(piece, add);
    pieces_.swap(next_);
  }

  // Calls write(piece, edit) for every piece, which writes it anew.
  template <typename F>
  void rewrite(F write) {
    TracedText& old = buffers_[0];
    old.bytes.assign(text_);
    old.traced = traced();
    old.base = base_;
    if (traced()) old.spans.assign(spans_, spans_ + text_.size());
    TextEdit edit(old);
    for (Piece& piece : pieces_) {
      const auto begin = static_cast<uint32_t>(old.other_bytes.size());
      write(piece, edit);
      piece = {begin, static_cast<uint32_t>(old.other_bytes.size())};
    }
    edit.finish();
    buffers_[0].bytes.swap(buffers_[1].bytes);
    buffers_[0].spans.swap(buffers_[1].spans);
    text_ = buffers_[1].bytes;
    if (traced()) spans_ = buffers_[1].spans.data();
  }

 private:
  std::string_view text_;
  const TextSpan* spans_ = nullptr;
  uint32_t base_ = 0;
  std::vector<Piece> pieces_, next_;
  TracedText buffers_[2];
};

// What becomes of what separates: Hugging Face's SplitDelimiterBehavior.
enum class Delimiter { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
template <>
inline constexpr std::array<std::string_view, 5> kSpellings<Delimiter> = {
    "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};

class PreTokenizer {
 public:
  // What a single blank between letters or digits does: words end before it; nothing that comes of the step depends on
  // it; or the text must not be cut there.
  enum class AtBlank { kEndsWord, kNothing, kUnknown };

  virtual ~PreTokenizer() = default;
  // Called by many threads.
  virtual void apply(Pieces& pieces, StepMemory& memory) const = 0;
  // Blanks may be spelled otherwise by what is done before.
  virtual AtBlank at_blank(std::string_view blank) const = 0;
  virtual std::string blank_after(std::string_view blank) const { return std::string(blank); }
  // Whether a word ends before a line break that follows a letter, and what comes behind begins anew.
  virtual bool ends_at_line() const { return false; }
  // Whether what it makes of a piece depends on where the original text begins.
  virtual bool needs_origins() const { return false; }
};

enum class PrependScheme { kFirst, kNever, kAlways };
template <>
inline constexpr std::array<std::string_view, 3> kSpellings<PrependScheme> = {"first", "never", "always"};

struct ByteLevelOptions {
  bool prefix_space = true, uses_regex = true;
  bool spells_bytes = true;  // false: whoever takes the words takes bytes
};

std::unique_ptr<PreTokenizer> make_byte_level(const Characters& characters, const ByteLevelOptions& options);
std::unique_ptr<PreTokenizer> make_metaspace(const std::string& replacement, PrependScheme scheme,
                                             bool splits);
std::unique_ptr<PreTokenizer> make_split(Pattern pattern, Delimiter behavior, bool invert);
std::unique_ptr<PreTokenizer> make_char_delimiter(const std::string& delimiter);
std::unique_ptr<PreTokenizer> make_bert_words(const Characters& characters);
std::unique_ptr<PreTokenizer> make_whitespace(const Characters& characters);
std::unique_ptr<PreTokenizer> make_whitespace_split(const Characters& characters);
std::unique_ptr<PreTokenizer> make_digits(const Characters& characters, bool individual);
std::unique_ptr<PreTokenizer> make_punctuation(const Characters& characters, Delimiter behavior);
std::unique_ptr<PreTokenizer> make_fixed_length(std::size_t characters);

using PreTokenizers = std::vector<std::unique_ptr<PreTokenizer>>;

}  // namespace recollect
