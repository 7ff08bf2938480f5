// Decides what is left open of how saved activations move: of how many layers at the end they stay, and how
// many layers ahead a fetch begins. It starts from one of each and takes one more only while that shortens
// the compute stream's waits by more than 1 % of forward and backward on the simulator's clocks, prefetch
// first, because it holds memory in backward alone. What storing costs without any wait is no reason to stay.
// The answer follows from graph, plan and device model, so it is the same in an estimate and on every rank of
// the run.
#pragma once

#include "checkpointing/device_model.h"
#include "checkpointing/residency.h"

namespace recollect {

inline constexpr int64_t kOpen = -1;        // a keep_last or prefetch to be decided
inline constexpr int64_t kMostLayers = 4;   // that are chosen of either
inline constexpr double kLeastGain = 0.01;  // of the simulated time, in waits, for one more layer

// `settings` with one where it is open: the start, and the least memory.
ResidencySettings least_residency(ResidencySettings settings);

// `settings` with an answer for what is open. To be called after recompute(), with what
// place_saved_activations() takes.
ResidencySettings choose_residency(const Graph& graph, const OpRegistry& registry,
                                   const SavedActivations& saved, const Plan& plan,
                                   const ResidencySettings& settings, const DeviceModel& device);

}  // namespace recollect
