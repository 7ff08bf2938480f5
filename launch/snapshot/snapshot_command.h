// The command `recollect snapshot`: inspects, verifies and converts snapshots (training checkpoints). It
// needs no run, only the files.
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
