// Formats bytes for people.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

namespace recollect {

// Widths of a table's columns, in characters.
constexpr int kNameWidth = 20, kCellWidth = 12;

// One unit for all cells of a table.
struct ByteUnit {
  const char* name;
  double bytes;
  std::string operator()(uint64_t n) const { return fmt::format("{:.2f}", static_cast<double>(n) / bytes); }
};

inline constexpr ByteUnit kMiB{"MiB", 1 << 20}, kGiB{"GiB", 1 << 30};

inline constexpr ByteUnit kKiB{"KiB", 1 << 10};

// For a table whose largest number is `most`.
constexpr const ByteUnit& unit_for(uint64_t most) { return most >= (uint64_t{1} << 30) ? kGiB : kMiB; }

// "33.46 MiB", in a unit that suits the number.
inline std::string bytes_text(uint64_t n) {
  const ByteUnit& unit = n < (1 << 20) ? kKiB : unit_for(n);
  return unit(n) + " " + unit.name;
}

}  // namespace recollect
