// The tables that make_unicode_tables.py writes: sorted by code point, read by unicode.cpp alone.
#pragma once

#include <cstdint>
#include <span>

namespace recollect::unicode {

struct Run {  // until the next one begins
  uint32_t first;
  uint16_t value;
};
struct ClassRange {  // both ends belong to it
  uint32_t first, last, combining_class;
};
struct MappingRun {  // every stride-th one
  uint32_t first, last;
  uint8_t stride;
  int32_t difference;
};
struct Composition {  // `first` and then `second` are written as `composed`
  uint32_t composed, first, second;
};
struct Several {  // ends at the first 0
  uint32_t from, to[4];
};

extern const std::span<const Run> kProperties, kCategories;
extern const std::span<const MappingRun> kLower;
// Canonical decompositions: of what is composed again, and of the rest. Hangul, which is arithmetic, is left out.
extern const std::span<const Composition> kCompositions;
extern const std::span<const MappingRun> kCanonicalOne;
extern const std::span<const Several> kCanonicalSeveral;
extern const std::span<const ClassRange> kCombiningClasses;  // where not 0
// Whole compatibility decompositions, where they are not the canonical ones. Several: from, how many, and these.
extern const std::span<const MappingRun> kCompatibleOne;
extern const std::span<const uint32_t> kCompatibleSeveral;

}  // namespace recollect::unicode
