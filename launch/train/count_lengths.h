// How often micro-batches are padded to which length in the first epoch of a run's data: the same samples in the same order as
// the run meets them.
#pragma once

#include "launch/config/config.h"
#include "launch/program/lengths.h"

namespace recollect {

// Of a configuration whose world is resolved. Of several data ranks' micro-batches that run beside each other the longest
// counts. Errors: those of opening and reading the data.
LengthCounts count_lengths(const Config& config);

}  // namespace recollect
