// Converts a snapshot (training checkpoint) to a snapshot of another layout of ranks or to a model in Hugging
// Face's format, and such a model to a first snapshot of a training. An existing destination does not change
// until the new one is completely on the disk.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/core/dtype.h"
#include "launch/snapshot/saved_run.h"

namespace recollect {

struct Conversion {
  std::string source, destination;
  bool overwrite = false;
};

// Each function returns one line that says what was written. Throws kInput for the source and kStorage for
// the destination.
//
// An axis that is not given has as many ranks as in the source. The state is the same, bit for bit.
std::string convert_to_snapshot(const Conversion& conversion, std::optional<int64_t> tensor,
                                std::optional<int64_t> data);
std::string convert_to_hugging_face(const Conversion& conversion, std::optional<DType> dtype);
// Writes the snapshot of step 0 of the run that `config` describes, with the initial optimizer state.
std::string convert_from_hugging_face(const Conversion& conversion, const Config& config,
                                      const RankLayout& layout);

}  // namespace recollect
