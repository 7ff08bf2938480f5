// Seconds of a step of one micro-batch that stand beside those of PlanBounds, whatever the plan.
//
// The optimizer's. And where a micro-batch begins and ends nothing can hide other streams: what its first op on the compute
// stream waits for has waited for none before, and what waits for the last of them begins when all are done. All plans have
// the same ops there.
#pragma once

#include "checkpointing/device_model.h"
#include "checkpointing/simulator.h"
#include "engine/graph/graph.h"
#include "engine/runtime/schedule.h"

namespace recollect {

// `graph`: of the plan that saves everything on the device; `step`: its simulation.
double seconds_of_any_plan(const Graph& graph, const Schedule& schedule, const DeviceModel& device,
                           const Simulation& step);

}  // namespace recollect
