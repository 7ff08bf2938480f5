// CRC-32C (Castagnoli), the check sum of record files: those of TensorBoard among them.
#pragma once

#include <cstdint>
#include <string_view>

namespace recollect {

// Of `bytes`, or, given what came out for the bytes before them, of all of them together.
uint32_t crc32c(std::string_view bytes, uint32_t before = 0);

}  // namespace recollect
