// Seeds for cuDNN's dropout masks. They depend on the same values as our own random words (philox.h), in
// another way: cuDNN numbers the elements of each mask from zero, so each mask needs its own seed.
#pragma once

#include <cstdint>

#include "engine/core/host_device.h"
#include "engine/runtime/kernel.h"

namespace recollect::cuda {

struct AttentionSite {
  int64_t layer = 0, site = 0;
  int64_t first_head = 0;  // of this rank, so that ranks draw different masks
};

// Returns a seed that almost certainly differs if the run's seed, step or samples, the op, its heads or its
// chunk differ.
RECOLLECT_HOST_DEVICE inline uint64_t attention_seed(const RunState& state, const AttentionSite& site,
                                                     int64_t chunk) {
  uint64_t hash = 0x9E3779B97F4A7C15u;
  const auto mix = [&hash](uint64_t word) {
    hash = (hash ^ word) * 0xBF58476D1CE4E5B9u;
    hash = (hash ^ (hash >> 31)) * 0x94D049BB133111EBu;
    hash ^= hash >> 29;
  };
  mix(state.seed);
  mix(static_cast<uint64_t>(state.step));
  mix(static_cast<uint64_t>(state.first_sample));
  mix(static_cast<uint64_t>(site.layer));
  mix(static_cast<uint64_t>(site.site));
  mix(static_cast<uint64_t>(site.first_head));
  mix(static_cast<uint64_t>(chunk));
  return hash >> 1;  // cuDNN's seed is signed
}

// Enqueues: out[2 * i] = the seed of chunk i, out[2 * i + 1] = its offset, 0. `state` and `out` are device
// memory.
void write_attention_seeds(const RunState* state, const AttentionSite& site, int64_t chunks, int64_t* out,
                           void* stream);

}  // namespace recollect::cuda
