// CRC-32C (Castagnoli): the checksum of record files, such as those of TensorBoard.
#pragma once

#include <cstdint>
#include <string_view>

namespace recollect {

// Returns the checksum of `bytes`. Given the checksum `before` of the preceding bytes, returns that of both
// together.
uint32_t crc32c(std::string_view bytes, uint32_t before = 0);

}  // namespace recollect
