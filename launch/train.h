// `recollect train`: one rank of it, from a communicator to the last line of the report.
#pragma once

#include "comm/communicator.h"
#include "launch/config/config.h"

namespace recollect {

// Writes config.resolved.yaml, plan.yaml, metrics.jsonl, memory.rankN.json and, when asked, the model into config.output_dir.
void train_rank(Config config, Communicator& world);

}  // namespace recollect
