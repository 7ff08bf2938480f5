// Byte counts for messages: exact, and in a unit that people read.
#pragma once

#include <cstdint>
#include <string>

namespace recollect {

// "30421248 bytes (29.01 MiB)"; "400 bytes" below a KiB.
std::string byte_count(uint64_t bytes);

}  // namespace recollect
