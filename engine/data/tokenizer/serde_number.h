// Numbers of JSON as serde_json reads them, the parser of Hugging Face `tokenizers`.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace recollect {

// The number that `tokenizers` reads for one that was written with the fewest digits: its parser (serde_json) divides the
// digits, rounded to a double, by a power of ten, which is up to one unit in the last place away from the nearest double.
inline double as_serde_reads(double nearest) {
  char text[32];
  const char* const end =
      std::to_chars(text, text + sizeof text, std::abs(nearest), std::chars_format::scientific).ptr;
  uint64_t digits = 0;
  int exponent = 0, power = 0;
  const char* at = text;
  for (bool fraction = false; *at != 'e'; ++at) {
    if (*at == '.') {
      fraction = true;
      continue;
    }
    digits = digits * 10 + static_cast<uint64_t>(*at - '0');
    exponent -= fraction ? 1 : 0;
  }
  std::from_chars(at[1] == '+' ? at + 2 : at + 1, end, power);
  exponent += power;
  constexpr int kLargestPower = 308;
  if (std::abs(exponent) > kLargestPower) return nearest;
  const std::string written = fmt::format("1e{}", std::abs(exponent));
  double scale = 0;
  std::from_chars(written.data(), written.data() + written.size(), scale);
  const double read = static_cast<double>(digits);
  return std::copysign(exponent < 0 ? read / scale : read * scale, nearest);
}

}  // namespace recollect
