// Randomness without state: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC11). A random word is a pure function of (seed, step, layer, site, global element index), so
// recomputation repeats it by construction and no value depends on how the work is divided over ranks or
// threads.
//
// Element e takes lane (e % 64) / 16 of block (e / 64) * 16 + e % 16: sixteen neighbours come from sixteen
// blocks, so that a vector unit can compute sixteen blocks at once.
#pragma once

#include <array>
#include <cstdint>

#include "engine/core/host_device.h"

namespace recollect {

struct RandomKey {
  uint64_t seed = 0;
  uint64_t step = 0;   // low 32 bits are used
  uint32_t layer = 0;  // low 24 bits are used; the model's own ops use 0xffffff
  uint32_t site = 0;   // low 8 bits: which random op inside the layer
};

RECOLLECT_HOST_DEVICE inline std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> c, uint32_t k0,
                                                                uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

// The words of one block: one for each of four elements that lie sixteen apart.
RECOLLECT_HOST_DEVICE inline std::array<uint32_t, 4> random_block(const RandomKey& key, uint64_t block) {
  return philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                     (key.layer << 8) | (key.site & 0xffu), static_cast<uint32_t>(key.step)},
                    static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32));
}

// The random 32-bit word of one element.
RECOLLECT_HOST_DEVICE inline uint32_t random_word(const RandomKey& key, uint64_t element) {
  return random_block(key, (element / 64) * 16 + element % 16)[(element % 64) / 16];
}

// An element is dropped when its word is below this threshold: probability p to within 2^-32.
inline uint32_t dropout_threshold(double p) {
  const double scaled = p * 4294967296.0;
  return scaled >= 4294967295.0 ? 4294967295u : static_cast<uint32_t>(scaled);
}

// Uniform in (0, 1), for weight initialisation.
inline double random_unit(const RandomKey& key, uint64_t element) {
  return (random_word(key, element) + 0.5) * 0x1p-32;
}

}  // namespace recollect
