// The tables that make_unicode_tables.py writes: sorted by code point, read by unicode.cpp alone.
#pragma once

#include <cstdint>
#include <span>

namespace recollect::unicode {

struct Run {  // until the next one begins
  uint32_t first;
  uint8_t properties;
};
struct ClassRange {  // both ends belong to it
  uint32_t first, last, combining_class;
};
struct LowerRun {  // every stride-th one
  uint32_t first, last;
  uint8_t stride;
  int32_t difference;
};
struct Pair {
  uint32_t from, to;
};
struct Several {  // ends at the first 0
  uint32_t from, to[4];
};

extern const std::span<const Run> kProperties;
extern const std::span<const LowerRun> kLower;
// Becomes nothing. Its combining class says how far marks move across it; no mark does across a 0.
extern const std::span<const ClassRange> kAccentGone;
extern const std::span<const Pair> kAccentOne;         // becomes one code point
extern const std::span<const Several> kAccentSeveral;  // becomes more; Hangul, which is arithmetic, left out
extern const std::span<const Pair> kCombiningClasses;  // of the marks that are no accents, where not 0

}  // namespace recollect::unicode
