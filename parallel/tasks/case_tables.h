// What Python asks about a character before it lowers a sigma: whether it has a case, and whether it is passed over in that
// question. Written by make_case_tables.py; both ends belong to a range.
#pragma once

#include <cstdint>
#include <span>

namespace recollect {

struct CodeRange {
  uint32_t first, last;
};

namespace case_tables {

extern const std::span<const CodeRange> kCased;  // and not passed over
extern const std::span<const CodeRange> kIgnorable;

}  // namespace case_tables

}  // namespace recollect
