#include "engine/core/hash.h"

#include <cstring>

namespace recollect {

namespace {

constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15u;  // odd, so that multiplying loses nothing

// One to one in each argument. High bits are folded down first, because a product only spreads bits upwards.
uint64_t mix(uint64_t hash, uint64_t word) {
  hash ^= word;
  hash ^= hash >> 32;
  return hash * kMultiplier;
}

}  // namespace

// Four independent chains hide the multiplier's latency.
uint64_t hash_bytes(const void* data, std::size_t bytes) {
  const auto* at = static_cast<const std::byte*>(data);
  uint64_t chains[4] = {1, 2, 3, 4};
  std::size_t done = 0;
  for (; done + 32 <= bytes; done += 32) {
    uint64_t words[4];
    std::memcpy(words, at + done, 32);
    for (int i = 0; i < 4; ++i) chains[i] = mix(chains[i], words[i]);
  }
  uint64_t tail[4] = {};
  if (done < bytes) std::memcpy(tail, at + done, bytes - done);
  uint64_t hash = bytes;
  for (int i = 0; i < 4; ++i) hash = mix(hash, mix(chains[i], tail[i]));
  return hash;
}

}  // namespace recollect
