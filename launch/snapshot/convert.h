// From a snapshot to a snapshot of another layout of ranks, or to a model of Hugging Face's form; and from such a model to
// a snapshot that a training begins with. What is there already stays as it is until all of the new one is on the disk.
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

// What each returns is one line on what was written. Errors: kInput for the source, kStorage for the destination.
//
// Ranks where they are not given: as many as the source's. The state is the same, bit for bit.
std::string convert_to_snapshot(const Conversion& conversion, std::optional<int64_t> tensor,
                                std::optional<int64_t> data);
std::string convert_to_hugging_face(const Conversion& conversion, std::optional<DType> dtype);
// The snapshot of step 0 of the run that `config` describes, whose optimizer has not begun.
std::string convert_from_hugging_face(const Conversion& conversion, const Config& config,
                                      const RankLayout& layout);

}  // namespace recollect
