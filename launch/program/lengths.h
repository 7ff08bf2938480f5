// The shapes of micro-batches that a run may meet: so many sequences, padded to lengths that data.padding says.
#pragma once

#include <cstdint>
#include <vector>

#include "launch/config/padding.h"
#include "parallel/model.h"

namespace recollect {

// Of the longest micro-batches.
BatchShape batch_shape(const Config& config);

// All of them, the longest first.
std::vector<BatchShape> all_batch_shapes(const Config& config);

}  // namespace recollect
