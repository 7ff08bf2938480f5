// UTF-8, and what the tokenizers ask about a code point. Text is checked once, by first_invalid_utf8();
// everything else takes its validity for granted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/data/tokenizer/pair_map.h"

namespace recollect {

// The offset of the first byte that is no UTF-8 (overlong, a surrogate, beyond 10FFFF or cut off), or npos.
std::size_t first_invalid_utf8(std::string_view text);

// Where the first byte beyond ASCII stands, from `at` on, or the end.
std::size_t first_foreign(std::string_view text, std::size_t at);

inline bool is_ascii(char c) { return (c & 0x80) == 0; }
inline bool continues_utf8(char c) { return (c & 0xc0) == 0x80; }

// The bytes of the character that begins with this one.
inline std::size_t utf8_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

// The code point at `at`, which is moved behind it.
inline uint32_t decode_utf8(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  const uint32_t first = byte(at);
  if (first < 0x80) return ++at, first;
  const std::size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  uint32_t point = first & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) point = point << 6 | (byte(at + i) & 0x3f);
  at += length;
  return point;
}

void append_utf8(uint32_t point, std::string& text);

enum class CharacterClass : uint8_t { kOther, kLetter, kNumber, kSpace };  // \p{L}, \p{N}, \s

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

class Characters {
 public:
  static constexpr uint32_t kEnd = 0x110000;

  Characters();

  CharacterClass class_of(uint32_t point) const {
    return static_cast<CharacterClass>(properties_[point] & kClassMask);
  }
  // BERT's: dropped as control characters are, or taken for a blank; written with blanks around it; a word of
  // its own; a nonspacing mark.
  bool is_dropped(uint32_t point) const { return properties_[point] & kDropped; }
  bool is_blank(uint32_t point) const { return properties_[point] & kBlank; }
  bool is_cjk(uint32_t point) const { return properties_[point] & kCjk; }
  bool is_punctuation(uint32_t point) const { return properties_[point] & kPunctuation; }
  bool is_accent(uint32_t point) const { return properties_[point] & kAccent; }
  // Rust's, and its regular expressions': is_numeric, is_whitespace, \w; a mark of any kind.
  bool is_numeric(uint32_t point) const { return properties_[point] & kNumeric; }
  bool is_white(uint32_t point) const { return properties_[point] & kWhite; }
  bool is_word(uint32_t point) const { return properties_[point] & kWord; }
  bool is_mark(uint32_t point) const { return properties_[point] & kMark; }

  // The general category in regular expressions: a place in kCategoryNames.
  uint8_t category_of(uint32_t point) const { return categories_[point]; }

  // Itself where it has no lower case. One code point, and two of kDottedI.
  static constexpr uint32_t kDottedI = 0x130;
  void append_lower(uint32_t point, std::string& text) const;
  bool has_lower(uint32_t point) const { return properties_[point] & kCase; }

  // Whether the form leaves the character as it is, whatever stands before it.
  bool is_stable(uint32_t point, NormalForm form) const {
    return !(properties_[point] & (kUnstable << static_cast<int>(form)));
  }
  uint8_t combining_class(uint32_t point) const {
    return static_cast<uint8_t>(properties_[point] >> kCombiningShift);
  }
  // Appends the whole decomposition, or the character itself.
  void decompose(uint32_t point, bool compatible, std::vector<uint32_t>& to) const;
  // 0 where there is none.
  uint32_t compose(uint32_t first, uint32_t second) const;

 private:
  enum Property : uint32_t {
    kClassMask = 3,
    kDropped = 1 << 2,
    kBlank = 1 << 3,
    kCjk = 1 << 4,
    kPunctuation = 1 << 5,
    kAccent = 1 << 6,
    kNumeric = 1 << 7,
    kWhite = 1 << 8,
    kWord = 1 << 9,
    kMark = 1 << 10,
    kCase = 1 << 11,
    kUnstable = 1 << 12,  // in the first form; the others follow
  };
  static constexpr int kCombiningShift = 24;
  using Decompositions = std::unordered_map<uint32_t, std::vector<uint32_t>>;

  void read_decompositions();
  void mark_unstable();
  void mark(uint32_t point, NormalForm form) {
    properties_[point] |= static_cast<uint32_t>(kUnstable) << static_cast<int>(form);
  }

  std::vector<uint32_t> properties_;  // of every code point
  std::vector<uint8_t> categories_;
  Decompositions canonical_, compatible_;
  PairMap compositions_;
};

inline constexpr const char* kCategoryNames[] = {"Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
                                                 "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
                                                 "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cs"};

// Of valid text.
inline std::size_t count_points(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) count += !continues_utf8(c);
  return count;
}

}  // namespace recollect
