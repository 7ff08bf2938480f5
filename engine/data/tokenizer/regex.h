// Regular expressions of tokenizer.json. They are written for Oniguruma; PCRE2 carries them out, after what the two
// write differently is translated, and what they would understand differently is refused. Characters that PCRE2's
// edition of Unicode puts into other categories are shown to it as others of the category that Oniguruma has.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "engine/data/tokenizer/unicode.h"

namespace recollect {

// What matching works with; one per thread.
class RegexMemory {
 public:
  RegexMemory();
  ~RegexMemory();
  RegexMemory(RegexMemory&&) noexcept;
  RegexMemory& operator=(RegexMemory&&) noexcept;

 private:
  friend class Regex;
  struct State;
  std::unique_ptr<State> state_;
};

class Regex {
 public:
  // Error kInput naming `where` for what is no regular expression, or is one that is not carried out here.
  Regex(const std::string& pattern, const Characters& characters, const std::string& where);
  ~Regex();
  Regex(Regex&&) noexcept;
  // Unicode's extended grapheme clusters.
  static Regex graphemes(const Characters& characters);

  // Where what matches at `from` ends; `from` where nothing does.
  std::size_t end_of_match(std::string_view text, std::size_t from, RegexMemory& memory) const;

  // The text that is to be searched; good until the next call with the same memory.
  std::string_view prepare(std::string_view text, RegexMemory& memory) const;

  // Calls match(begin, end), one after another, as Rust's bindings of Oniguruma find them. `prepared` is what prepare()
  // has given, or a part of it, which then is all that there is. Error kInput where the search takes too long.
  template <typename F>
  void for_each_match(std::string_view prepared, RegexMemory& memory, F match) const {
    std::size_t last = prepared.size() + 1;  // where the last match ended; an empty one is none there
    for (std::size_t from = 0; from <= prepared.size();) {
      std::size_t begin = 0, end = 0;
      if (!search(prepared, from, memory, begin, end)) return;
      from = end;
      if (begin == end) {
        from += end < prepared.size() ? utf8_length(prepared[end]) : 1;
        if (end == last) continue;
      }
      last = end;
      match(begin, end);
    }
  }

 private:
  struct Program;
  Regex();
  bool search(std::string_view text, std::size_t from, RegexMemory& memory, std::size_t& begin,
              std::size_t& end) const;

  std::shared_ptr<const Program> program_;
};

// The same in PCRE2's syntax. Error kInput naming `where`. `explicit_points` gets the ends of all ranges, and twice
// every character, beyond ASCII that it names.
std::string translate_regex(const std::string& pattern, const std::string& where,
                            std::vector<uint32_t>& explicit_points);

// What tokenizer.json calls a pattern: {"String": ...} or {"Regex": ...}.
class Pattern {
 public:
  static Pattern literal(std::string text) { return Pattern(std::move(text), nullptr); }
  static Pattern regex(std::string text, const Characters& characters, const std::string& where) {
    auto compiled = std::make_shared<const Regex>(text, characters, where);
    return Pattern(std::move(text), std::move(compiled));
  }

  bool is_literal() const { return !regex_; }
  const std::string& text() const { return text_; }

  std::string_view prepare(std::string_view text, RegexMemory& memory) const {
    return regex_ ? regex_->prepare(text, memory) : text;
  }
  template <typename F>
  void for_each_match_prepared(std::string_view text, RegexMemory& memory, F match) const {
    if (regex_) return regex_->for_each_match(text, memory, match);
    for (std::size_t at = text.find(text_); at != std::string_view::npos;
         at = text.find(text_, at + text_.size()))
      match(at, at + text_.size());
  }
  template <typename F>
  void for_each_match(std::string_view text, RegexMemory& memory, F match) const {
    for_each_match_prepared(prepare(text, memory), memory, match);
  }

 private:
  Pattern(std::string text, std::shared_ptr<const Regex> regex)
      : text_(std::move(text)), regex_(std::move(regex)) {}

  std::string text_;
  std::shared_ptr<const Regex> regex_;
};

}  // namespace recollect
