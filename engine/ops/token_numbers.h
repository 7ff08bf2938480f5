// The numbers by which dropout knows tokens, for every backend. Sample n of a run has the numbers from
// n * RunState::token_stride on, whatever the length of the batch that it stands in: padded or not, and
// wherever its tokens are divided, it drops the same.
#pragma once

#include <cstdint>

#include "engine/core/host_device.h"
#include "engine/graph/attributes.h"
#include "engine/runtime/kernel.h"

namespace recollect {

// Of the rows of a [T, h] value: whole samples of one length, or this rank's part of them.
class TokenNumbers {
 public:
  TokenNumbers() = default;
  explicit TokenNumbers(const Attributes& attributes)
      : length_(attributes.integer("sequence_length")), first_(attributes.integer("first_token")) {}

  RECOLLECT_HOST_DEVICE int64_t of_row(const RunState& state, int64_t row) const {
    const int64_t token = first_ + row, padding = state.token_stride - length_;
    const int64_t number = state.first_sample * state.token_stride + token;
    return padding == 0 ? number : number + token / length_ * padding;
  }
  // The dropout index of element `at`, counted row by row.
  RECOLLECT_HOST_DEVICE uint64_t of_element(const RunState& state, int64_t width, int64_t at) const {
    const int64_t row = at / width;
    return static_cast<uint64_t>(of_row(state, row)) * width + (at - row * width);
  }

 private:
  int64_t length_ = 1, first_ = 0;  // tokens of a sample; of the micro-batch, the one in row 0
};

}  // namespace recollect
