// The fourth promise: no key of activation_checkpointing is without effect. One that does nothing at all is
// Error kConfiguration, which says why; where only a part of it does nothing, the reports carry a remark.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpointing/policies.h"
#include "checkpointing/residency.h"
#include "launch/config/config.h"

namespace recollect {

struct Remark {
  std::string key, sentence;
};

// A number that somebody had to decide.
struct Choice {
  std::string key;
  int64_t layers = 0;
  std::string reason;  // "given", "simulated", or the key that left no choice
};

// Of the plan, before anything is recomputed. `settings` made it, unless it was read from a file, which asked
// to partition `divided_already` values that are.
std::vector<Remark> check_plan(const Config& config, const PolicySettings& settings, const Graph& graph,
                               const SavedActivations& saved, const Plan& plan, int64_t divided_already);

// Of the moves, after they are in the graph.
std::vector<Remark> check_moves(const Config& config, const Graph& graph, const ResidencySettings& moves,
                                const ResidencyReport& moved);

}  // namespace recollect
