// The micro-batch shapes that a run may meet: the number of sequences, and the lengths to which data.padding
// pads them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launch/config/padding.h"
#include "parallel/model.h"

namespace recollect {

// The shape of the longest micro-batches.
BatchShape batch_shape(const Config& config);

// All shapes, the longest first.
std::vector<BatchShape> all_batch_shapes(const Config& config);

// The number of micro-batches in an epoch, by the length to which they are padded.
using LengthCounts = std::map<int64_t, int64_t>;
// Parses "64:120, 128:40": 120 micro-batches with a longest sequence of up to 64 tokens, and so on. Throws
// kConfiguration for any other text, and for lengths above data.sequence_length.
LengthCounts read_length_counts(const std::string& text, const Config& config);

}  // namespace recollect
