// What the kernels of cached_attention share: where its operands stand, and where in a cache a token has its
// place. Queries, new keys and new values lie as those of attention do.
#pragma once

#include "engine/ops/attention.h"

namespace recollect {

inline constexpr AttentionInputs kCachedAttentionInputs{0, 1, 3, 3};  // neither lengths nor positions
inline constexpr int kFilledInput = 2;

// Two numbers of a run.
struct Filled {
  RECOLLECT_HOST_DEVICE explicit Filled(const int32_t* at) : cached(at[0]), added(at[1]) {}
  int64_t cached;  // tokens that the cache holds already
  int64_t added;   // tokens of the batch that join them; what follows these stands for nothing
};

// Where a kv unit's row of a token begins.
RECOLLECT_HOST_DEVICE inline int64_t cache_at(const AttentionShape& shape, int64_t capacity, int64_t kv_unit,
                                              int64_t token) {
  return (kv_unit * capacity + token) * shape.head_size;
}

}  // namespace recollect
