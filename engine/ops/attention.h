// The sizes of attention and the places of its numbers, read from an op once for its definition and for the
// kernels of every backend. A unit is one head of one sample: unit = sample * heads + head.
#pragma once

#include <cmath>

#include "engine/core/host_device.h"
#include "engine/graph/op_def.h"
#include "engine/runtime/kernel.h"

namespace recollect {

struct AttentionShape {
  AttentionShape(const Attributes& attributes, int64_t tokens)
      : heads(attributes.integer("heads")),
        head_size(attributes.integer("head_size")),
        length(attributes.integer("sequence_length")),
        first_head(attributes.integer("first_head")),
        all_heads(attributes.integer("all_heads")),
        samples(tokens / length),
        scale(static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_size)))) {}
  // Of attention or attention_backward: the first input of either has a row for every token.
  explicit AttentionShape(const OpView& view) : AttentionShape(view.attributes(), view.in(0).shape[0]) {}

  RECOLLECT_HOST_DEVICE int64_t units() const { return samples * heads; }
  RECOLLECT_HOST_DEVICE int64_t unit(int64_t sample, int64_t head) const { return sample * heads + head; }
  RECOLLECT_HOST_DEVICE int64_t qkv_row() const { return 3 * heads * head_size; }
  RECOLLECT_HOST_DEVICE int64_t out_row() const { return heads * head_size; }

  // Where q (part 0), k (1) or v (2) of a unit begins in qkv; where its output does.
  RECOLLECT_HOST_DEVICE int64_t qkv_at(int64_t unit, int part) const {
    return unit / heads * length * qkv_row() + (part * heads + unit % heads) * head_size;
  }
  RECOLLECT_HOST_DEVICE int64_t out_at(int64_t unit) const {
    return unit / heads * length * out_row() + unit % heads * head_size;
  }
  // The dropout index of (query, key 0): as if all samples were as long as the longest of the run.
  RECOLLECT_HOST_DEVICE uint64_t probability_at(const RunState& state, int64_t unit, int64_t query) const {
    const int64_t head = (state.first_sample + unit / heads) * all_heads + first_head + unit % heads;
    return (static_cast<uint64_t>(head) * state.token_stride + query) * state.token_stride;
  }

  int64_t heads, head_size, length;  // of this rank; tokens of a sample
  int64_t first_head, all_heads;     // its place among all ranks' heads
  int64_t samples;
  float scale;  // of scores
};

}  // namespace recollect
