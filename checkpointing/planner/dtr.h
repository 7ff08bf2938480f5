// Mode dtr: what dynamic tensor rematerialization (eviction.h) would evict is known before a step runs, since
// the step is a program. So it is run ahead of time, over forward and backward, and leaves an ordinary plan: what
// it evicted before backward read it is recomputed, the rest is saved. Such a plan decides once per value, and a
// recomputation stays until backward has read it; so its peak is not the simulated one. Only a plan of which the
// compiled program's exact peak is within the budget is an answer.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "checkpointing/device_model.h"
#include "checkpointing/plan.h"
#include "checkpointing/planner/eviction.h"
#include "checkpointing/saved_activations.h"

namespace recollect {

struct DtrResult {
  Plan plan;
  uint64_t peak = 0;   // exact_peak's
  double seconds = 0;  // of the ops that the plan recomputes and gathers again, in one micro-batch
  int evictions = 0;   // of the simulation that the plan was made of
};

// The step of a differentiated graph as eviction.h sees it. Tensor by value: -1 for what is none.
struct DtrTrace {
  EvictionTrace trace;
  std::vector<int> tensors;  // by value
};
DtrTrace trace_of(const Graph& graph, const SavedActivations& saved, const DeviceModel& device);

// What it leaves in even steps of simulated budgets, with the inputs of layers held and without; none is compiled.
std::vector<Plan> dtr_plans(const Graph& graph, const SavedActivations& saved, const DeviceModel& device,
                            uint64_t steps);

// `budget`: device bytes of transient values, as `exact_peak` counts them in the program that a plan compiles to.
// Where the first plan exceeds it, the simulated budget is lowered in sixteenths of it until a plan fits, and then
// raised again by halving the last step. The same is done a second time with the inputs of layers held in the
// simulation, so that no recomputation reaches over several layers. Of the plans that fit, the one of the least
// seconds is taken. At most 40 are compiled. Nothing where none fits.
std::optional<DtrResult> make_dtr_plan(const Graph& graph, const SavedActivations& saved,
                                       const DeviceModel& device, uint64_t budget,
                                       EvictionHeuristic heuristic,
                                       const std::function<uint64_t(const Plan&)>& exact_peak);

// The same where something else than a program says what a plan takes.
struct DtrMeasures {
  std::function<uint64_t(const Plan&)> peak;   // device bytes, as above
  std::function<double(const Plan&)> seconds;  // that tell the better of two plans
};
std::optional<DtrResult> make_dtr_plan(const Graph& graph, const SavedActivations& saved,
                                       const DeviceModel& device, uint64_t budget,
                                       EvictionHeuristic heuristic, const DtrMeasures& measures);

}  // namespace recollect
