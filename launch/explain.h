// `recollect explain`: the checkpointing plan and the schedule of a step as text, one line an op.
#pragma once

#include <string>

#include "engine/runtime/program.h"
#include "launch/commands.h"

namespace recollect {

std::string schedule_text(const Program& program);
void explain_command(const Words& words, std::unique_ptr<MpiEnvironment>& mpi);

}  // namespace recollect
