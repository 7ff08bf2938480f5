// `recollect train`: trains on all ranks of this process.
#pragma once

#include <memory>

#include "comm/mpi.h"
#include "launch/config/words.h"

namespace recollect {

OptionTable train_options();
// Of the words behind `train`.
Config read_train_words(const Words& words);
// Ends the program where the run was preempted.
void train_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

}  // namespace recollect
