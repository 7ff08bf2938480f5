// The fourth promise: no key of activation_checkpointing is without effect. One that does nothing at all
// is an error that says why; where only a part of it does nothing, the reports carry a remark. All of this
// is judged here: by the settings alone, by the plan that comes of them, and by what was moved in the end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpointing/policies.h"
#include "checkpointing/residency.h"
#include "checkpointing/settings.h"
#include "engine/core/error.h"
#include "engine/core/tensor.h"
#include "engine/io/problems.h"

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

// What the settings are judged by beside themselves.
struct CheckpointedRun {
  int64_t layers = 0;
  std::string layers_key = {};  // of the configuration, which says how many
  int64_t tensor_ranks = 1;
  bool sequence_parallel = false;
  DType dtype = DType::kF32;  // of activations
  int64_t memory_limit = 0;   // bytes of the device; 0: none
};

// What was found: why the settings cannot stand, if so, and what else is to be said of them.
struct Judgement {
  std::optional<Error> refusal;  // kConfiguration
  std::vector<Remark> remarks;
};

// Of the settings alone: switches that contradict each other, or that nothing could make have an effect.
std::vector<Finding> check_settings(const CheckpointingSettings& settings, const CheckpointedRun& run);

// Of the plan, before anything is recomputed. Where it was read from a file, that asked to partition
// `divided_already` values which are divided without it.
Judgement check_plan(const CheckpointingSettings& settings, const Graph& graph, const SavedActivations& saved,
                     const Plan& plan, int64_t divided_already);

// Of the moves, after they are in the graph. `remade`: values that come back or are recomputed.
Judgement check_moves(const CheckpointingSettings& settings, const Graph& graph, const Plan& plan,
                      const ResidencySettings& moves, const ResidencyReport& moved, std::size_t remade);

}  // namespace recollect
