// Makes of what a user says of activation checkpointing a graph that does it: decides on a plan, recomputes,
// moves, and says what each switch then does. The graph is differentiated before, and its gradients are
// reduced after.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "checkpointing/device_model.h"
#include "checkpointing/plan.h"
#include "checkpointing/recompute.h"
#include "checkpointing/residency.h"
#include "checkpointing/settings.h"
#include "checkpointing/switch_effects.h"
#include "engine/core/error.h"

namespace recollect {

// How attention's backward adds up on a GPU (kKeysInOrder), and what it takes of the device then. No plan changes it.
struct AttentionMemory {
  bool in_order = false;
  uint64_t workspace_bytes = 0, instead_of_bytes = 0;
};

struct Checkpointed {
  std::optional<Error> refusal;  // why the settings cannot stand; nothing else is complete then
  Plan plan;                     // as it is carried out
  ResidencySettings moves;       // what the settings leave open is decided
  ResidencyReport residency;     // of one micro-batch
  GatheredAgain gathered;        // of one micro-batch, by sequence parallelism
  std::vector<Choice> choices;   // of what was open, where anything moves
  std::vector<Remark> remarks;
  int64_t pieces = 0;  // as overlap_collectives takes them
  AttentionMemory attention = {};
};

// What decides beside the settings.
struct CheckpointingRules {
  int64_t tensor_size = 1;
  int64_t halves = 1;  // of a batch, which take turns: the graph is that of the first
  DeviceModel device = {};
  bool least = false;                     // of what the settings leave open: as little memory as can be
  bool disk_through_host = false;         // the disk is written from the host's memory and read into it
  const Plan* plan = nullptr;             // what has been decided on every value, instead of settings
  const Checkpointed* decided = nullptr;  // the same decisions as for this batch of another length
};

// Changes the graph, of which `saved` is the analysis. Error kConfiguration where a plan's file is wrong.
Checkpointed checkpoint(Graph& graph, const OpRegistry& registry, const SavedActivations& saved,
                        const CheckpointingSettings& settings, const CheckpointingRules& rules);

}  // namespace recollect
