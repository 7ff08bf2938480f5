// How much a run will write, before it writes anything.
#pragma once

#include <cstddef>
#include <vector>

#include "launch/train/output_folder.h"
#include "launch/train/session.h"

namespace recollect {

// The files of all ranks in the output folder, with bounds of their sizes; exact, but for its header, of the
// model. `configured`: bytes of what says how the run was configured and planned.
std::vector<PlannedFile> planned_files(const Config& config, const Session& session, std::size_t configured);

}  // namespace recollect
