// The shapes of micro-batches that a run may meet: so many sequences, padded to lengths that data.padding says.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launch/config/padding.h"
#include "parallel/model.h"

namespace recollect {

// Of the longest micro-batches.
BatchShape batch_shape(const Config& config);

// All of them, the longest first.
std::vector<BatchShape> all_batch_shapes(const Config& config);

// Micro-batches of an epoch, by the length to which they are padded.
using LengthCounts = std::map<int64_t, int64_t>;
// "64:120, 128:40": 120 micro-batches of which the longest sequence has up to 64 tokens. Error kConfiguration for any other
// text, and for lengths beyond data.sequence_length.
LengthCounts read_length_counts(const std::string& text, const Config& config);

}  // namespace recollect
