// `recollect snapshot`: looks at snapshots, proves them whole, makes other things of them; without a run, and without
// anything but the files.
#pragma once

#include <memory>

#include "comm/mpi.h"
#include "launch/config/words.h"

namespace recollect {

OptionTable snapshot_inspect_options();
void snapshot_inspect_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

void snapshot_verify_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

OptionTable snapshot_convert_options();
void snapshot_convert_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

}  // namespace recollect
