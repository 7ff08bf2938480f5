// The token numbers that dropout uses, for every backend. The tokens of sample n of a run have the numbers
// from n * RunState::token_stride on, whatever the sequence length of its batch. So dropout is the same with
// or without padding, and however the tokens are divided over ranks.
#pragma once

#include <cstdint>

#include "engine/core/host_device.h"
#include "engine/graph/attributes.h"
#include "engine/runtime/kernel.h"

namespace recollect {

// Numbers the rows of a [T, h] value: whole samples of one length, or this rank's shard of them.
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

 private:
  int64_t length_ = 1, first_ = 0;  // tokens per sample; the micro-batch's token in row 0
};

// The dropout indices of the elements of a [T, h] value: of whole rows, or of some columns of wider ones.
class ElementNumbers {
 public:
  ElementNumbers() = default;
  ElementNumbers(const Attributes& attributes, int64_t width)
      : tokens_(attributes),
        first_column_(attributes.has("first_column") ? attributes.integer("first_column") : 0),
        all_columns_(attributes.has("all_columns") ? attributes.integer("all_columns") : width) {}

  RECOLLECT_HOST_DEVICE uint64_t of(const RunState& state, int64_t row, int64_t column) const {
    return static_cast<uint64_t>(tokens_.of_row(state, row)) * static_cast<uint64_t>(all_columns_) +
           static_cast<uint64_t>(first_column_ + column);
  }
  // Returns true if every row begins at a multiple of `group`.
  bool begin_at_multiples_of(int64_t group) const {
    return first_column_ % group == 0 && all_columns_ % group == 0;
  }

 private:
  TokenNumbers tokens_;
  int64_t first_column_ = 0, all_columns_ = 1;
};

}  // namespace recollect
