// `recollect explain`: the checkpointing plan and the schedule of a step as text, one line an op.
#pragma once

#include <memory>

#include <string>

#include "comm/mpi.h"
#include "engine/runtime/program.h"
#include "launch/config/words.h"

namespace recollect {

std::string schedule_text(const Program& program);
void explain_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

}  // namespace recollect
