// The gradients that several ranks hold parts of are summed while backward goes on: buckets of them leave on
// the communication stream as soon as their last contribution is in, in the last micro-batch of a step. A
// bucket is a group of the graph, and so one buffer.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/graph/op_def.h"
#include "parallel/data_parts.h"
#include "parallel/parameter.h"

namespace recollect {

struct GradientReduction {
  int data_size = 1;
  int data_rank = 0;
  int zero_stage = 0;  // what each data rank keeps is divided by them
  int tensor_size = 1;
  int repeats = 1;                    // tensor ranks that hold the same key/value heads
  uint64_t bucket_bytes = 25u << 20;  // a bucket leaves when it holds at least this
};

// To be called when backward is complete. Makes groups of all gradients, in the order in which backward
// completes them, whether they have to be reduced or not. They are summed over the data axis; before that,
// those marked partial over the tensor axis, and those of what several tensor ranks hold over the repeat
// axis. Where parameters are divided over the data ranks each gets its part of the sum; where gradients are, it does in
// every micro-batch, and the sums over micro-batches are made of such parts.
void reduce_gradients(Graph& graph, const OpRegistry& registry, std::vector<Parameter>& parameters,
                      const GradientReduction& reduction);

}  // namespace recollect
