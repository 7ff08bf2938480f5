// A token and what it stands for in the text that was encoded.
#pragma once

#include <cstdint>

namespace recollect {

struct Token {
  uint32_t id = 0;
  int32_t word = -1;            // its word's number in the text, or in the list of words; -1: a special token
  uint32_t begin = 0, end = 0;  // code points of the text, or of its word; both 0 of a special token
  uint8_t type = 0;
  int8_t sequence = -1;  // 0 or 1: the first or the second text; -1: a special token
  // Blanks that an added token takes from the text beside it.
  uint16_t blanks_left = 0, blanks_right = 0;

  bool operator==(const Token&) const = default;
};

}  // namespace recollect
