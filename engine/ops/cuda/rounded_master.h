// Stores an updated parameter: unchanged if it is f32, stochastically rounded if it is bf16.
#pragma once

#include <type_traits>

#include "engine/ops/stochastic_rounding.h"
#include "engine/runtime/cuda/element.h"
#include "engine/runtime/kernel.h"

namespace recollect::cuda {

// Same as random_word(), but without an array that is indexed at run time, which would be put into local
// memory.
inline __device__ uint32_t rounding_word(const RandomKey& key, uint64_t element) {
  const auto words = random_block(key, element / 64 * 16 + element % 16);
  const uint64_t which = element % 64 / 16;
  return which == 0 ? words[0] : which == 1 ? words[1] : which == 2 ? words[2] : words[3];
}

// Stores the element at (row, column) of the op's rows; both select the random word.
template <typename W>
__device__ void store_master(W* to, float value, const RoundedParameter& rounding, const RunState* state,
                             int64_t row, int64_t column) {
  if constexpr (std::is_same_v<W, bf16>) {
    RECOLLECT_WRITES(to, sizeof(bf16));
    *to = rounded_by_chance(
        value, rounding_word(rounding.key(state->seed, state->step), rounding.element(row, column)));
  } else {
    store_one(to, value);
  }
}

}  // namespace recollect::cuda
