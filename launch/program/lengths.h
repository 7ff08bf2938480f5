// The shapes of micro-batches that a run may meet: so many sequences, padded to lengths that data.padding says.
#pragma once

#include <cstdint>
#include <vector>

#include "launch/config/config.h"
#include "parallel/model.h"

namespace recollect {

// Of the longest micro-batches.
BatchShape batch_shape(const Config& config);

// Of what lengths are multiples, but for data.sequence_length itself; 0: there is no other length. Where sequence
// parallelism divides the tokens of a micro-batch, lengths are such that it can.
int64_t length_multiple(const Config& config);

// All of them, the longest first.
std::vector<BatchShape> all_batch_shapes(const Config& config);

}  // namespace recollect
