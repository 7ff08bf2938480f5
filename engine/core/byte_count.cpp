#include "engine/core/byte_count.h"

#include <fmt/format.h>

namespace recollect {

std::string byte_count(uint64_t bytes) {
  const std::string exact = fmt::format("{} bytes", bytes);
  if (bytes < 1 << 10) return exact;
  const char* unit = "KiB";
  double number = static_cast<double>(bytes) / (1 << 10);
  for (const char* larger : {"MiB", "GiB"}) {
    if (number < 1 << 10) break;
    number /= 1 << 10;
    unit = larger;
  }
  return fmt::format("{} ({:.2f} {})", exact, number, unit);
}

}  // namespace recollect
