// The plans of which one is mode auto's answer, or with which the search for it begins (plan_front.h): those that the solver
// finds for the layers (chain.h), from few device bytes to many, and those of the named modes in every residence that the
// settings allow: every_k with each k up to 16 and that of the settings, selective with the groups of the settings, with those
// that cost little and with each one alone. On the device modes have more of what they recompute saved step by step, too; and
// the plans of mode dtr in some simulated budgets. None of these depends on the device's budget. All of them are tried, or proven
// slower, in every budget: a larger one never costs time.
// Plans that use host memory or the disk depend on the limits of these.
#pragma once

#include <vector>

#include "checkpointing/planner/layer_options.h"
#include "checkpointing/settings.h"

namespace recollect {

struct Candidate {
  DraftPlan plan;
  PlanBounds bounds;
};

struct Surroundings {
  const Graph& graph;
  const SavedActivations& saved;
  const CheckpointingSettings& settings;
  const DeviceModel& device;
  Residences residences;
  Storage storage;
};

// With everything saved on the device.
DraftPlan save_everything(const Surroundings& of);

// `host`, `disk`: bytes that may be taken there, of which the solver knows; plans that take more may be among these.
std::vector<Candidate> list_candidates(const Surroundings& of, const BoundMaker& bounds, uint64_t host,
                                       uint64_t disk);

}  // namespace recollect
