// `recollect tokenize`: text and JSONL files to a token file that data.format tokens reads.
#pragma once

#include <memory>

#include "comm/mpi.h"
#include "launch/config/words.h"

namespace recollect {

OptionTable tokenize_options();
void tokenize_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

}  // namespace recollect
