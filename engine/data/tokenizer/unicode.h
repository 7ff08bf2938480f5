// UTF-8, and what the tokenizers ask about a code point. Text is checked once, by first_invalid_utf8();
// everything else takes its validity for granted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace recollect {

// The offset of the first byte that is no UTF-8 (overlong, a surrogate, beyond 10FFFF or cut off), or npos.
std::size_t first_invalid_utf8(std::string_view text);

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

class Characters {
 public:
  Characters();

  CharacterClass class_of(uint32_t point) const {
    return static_cast<CharacterClass>(properties_[point] & kClassMask);
  }
  // BERT's: dropped as control characters are, or taken for a blank; written with blanks around it; a word of
  // its own.
  bool is_dropped(uint32_t point) const { return properties_[point] & kDropped; }
  bool is_blank(uint32_t point) const { return properties_[point] & kBlank; }
  bool is_cjk(uint32_t point) const { return properties_[point] & kCjk; }
  bool is_punctuation(uint32_t point) const { return properties_[point] & kPunctuation; }

  // Itself where it has no lower case. One code point, and two of kDottedI.
  static constexpr uint32_t kDottedI = 0x130;
  void append_lower(uint32_t point, std::string& text) const;
  // Canonical decomposition (NFD) without nonspacing marks, one code point after another.
  class AccentStripper;

 private:
  friend class AccentStripper;
  enum Property : uint8_t {
    kClassMask = 3,
    kDropped = 4,
    kBlank = 8,
    kCjk = 16,
    kPunctuation = 32,
    kAccent = 64,
    kCase = 128
  };

  std::vector<uint8_t> properties_;  // of every code point
};

// A character, and which one of the original text it comes from.
struct TracedPoint {
  char32_t point;
  uint32_t origin;
};

// Marks take the canonical order among themselves: what was appended last stands in `out` after finish().
// Origins are what Hugging Face `tokenizers` makes of them: marks change places, and their origins do not.
class Characters::AccentStripper {
 public:
  AccentStripper(const Characters& characters, std::vector<TracedPoint>& out)
      : characters_(characters), out_(out) {}
  void append(uint32_t point, uint32_t origin);
  void finish();

 private:
  struct Mark {
    char32_t point;
    uint32_t combining_class, origin;
    bool stays, inserted;  // inserted: behind the first part of a character
  };
  void append_starter(uint32_t point, uint32_t origin);
  void append_kept(uint32_t point, uint32_t origin, bool inserted);
  void append_mark(const Mark& mark);

  const Characters& characters_;
  std::vector<TracedPoint>& out_;
  std::vector<Mark> marks_;  // since the last character that is none
  bool keeps_some_ = false;
  uint32_t origin_ = 0;  // of the character before the marks
};

// Of valid text.
inline std::size_t count_points(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) count += (c & 0xc0) != 0x80;
  return count;
}

}  // namespace recollect
