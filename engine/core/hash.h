// A hash of memory, to compare contents with: not secret, not for other machines.
#pragma once

#include <cstddef>
#include <cstdint>

namespace recollect {

// Of all bytes. Any change within one 8-byte word changes it.
uint64_t hash_bytes(const void* data, std::size_t bytes);

}  // namespace recollect
