// `recollect snapshot`: looks at snapshots, proves them whole, makes other things of them; without a run, and without
// anything but the files.
#pragma once

#include <memory>

#include "comm/mpi.h"
#include "launch/config/words.h"

namespace recollect {

void snapshot_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

}  // namespace recollect
