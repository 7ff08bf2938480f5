// The vector form of engine/core/philox.h: lane i of every loop is one block of the sixteen of a group.
#include "engine/ops/cpu/dropout.h"

#include <algorithm>

namespace recollect::cpu {

namespace {

constexpr int kLanes = 16;
constexpr int kGroup = 4 * kLanes;

struct Blocks {
  alignas(64) uint32_t c[4][kLanes];
};

inline void philox_round(Blocks& b, uint32_t k0, uint32_t k1) {
#pragma omp simd
  for (int i = 0; i < kLanes; ++i) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * b.c[0][i];
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * b.c[2][i];
    b.c[0][i] = static_cast<uint32_t>(p1 >> 32) ^ b.c[1][i] ^ k0;
    b.c[1][i] = static_cast<uint32_t>(p1);
    b.c[2][i] = static_cast<uint32_t>(p0 >> 32) ^ b.c[3][i] ^ k1;
    b.c[3][i] = static_cast<uint32_t>(p0);
  }
}

}  // namespace

void DropoutMask::group(uint64_t index, float* out) const {
  const uint64_t block = index * kLanes;
  Blocks b;
  for (int i = 0; i < kLanes; ++i) {
    b.c[0][i] = static_cast<uint32_t>(block) + i;
    b.c[1][i] = static_cast<uint32_t>(block >> 32);
    b.c[2][i] = (key_.layer << 8) | (key_.site & 0xffu);
    b.c[3][i] = static_cast<uint32_t>(key_.step);
  }
  uint32_t k0 = static_cast<uint32_t>(key_.seed), k1 = static_cast<uint32_t>(key_.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    philox_round(b, k0, k1);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int word = 0; word < 4; ++word)
#pragma omp simd
    for (int i = 0; i < kLanes; ++i) out[word * kLanes + i] = b.c[word][i] < threshold_ ? 0.0f : scale_;
}

void DropoutMask::multipliers(uint64_t first, int64_t count, float* out) const {
  const uint64_t end = first + static_cast<uint64_t>(count);
  while (first < end) {
    const uint64_t index = first / kGroup, skip = first % kGroup;
    const uint64_t take = std::min<uint64_t>(kGroup - skip, end - first);
    if (take == kGroup) {
      group(index, out);
    } else {
      float all[kGroup];
      group(index, all);
      std::copy_n(all + skip, take, out);
    }
    out += take;
    first += take;
  }
}

}  // namespace recollect::cpu
