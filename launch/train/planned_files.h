// Predicts how much a run will write.
#pragma once

#include <cstddef>
#include <vector>

#include "launch/train/output_folder.h"
#include "launch/train/session.h"

namespace recollect {

// The files of all ranks in the output folder with upper bounds of their sizes. The bound for the model is
// exact except for its header. `configured` is the size of the configuration and the plan.
std::vector<PlannedFile> planned_files(const Config& config, const Session& session, std::size_t configured);

}  // namespace recollect
