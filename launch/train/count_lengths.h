// Counts the micro-batches of the first epoch by the length to which they are padded, with the samples in the
// order of the run.
#pragma once

#include "launch/config/config.h"
#include "launch/program/lengths.h"

namespace recollect {

// For a configuration whose world is resolved. Micro-batches that data ranks run at the same time count once,
// with the longest length. Throws the errors of opening and reading the data.
LengthCounts count_lengths(const Config& config);

}  // namespace recollect
