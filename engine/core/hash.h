// A hash of memory, for comparing contents. It is not cryptographic, and other machines may give other
// hashes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace recollect {

// Hashes all bytes. Any change within one 8-byte word changes the hash.
uint64_t hash_bytes(const void* data, std::size_t bytes);

}  // namespace recollect
