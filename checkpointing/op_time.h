// How long each op of a program takes alone, by what a device's model knows of it.
#pragma once

#include <string>
#include <vector>

#include "checkpointing/device_model.h"
#include "engine/graph/op_def.h"

namespace recollect {

// How an op is found among a model's kernels and measured by them.
struct KernelUse {
  std::string key;    // of DeviceModel::kernels
  double amount = 0;  // where on the curve
  double work = 0;    // what its rates divide
};
KernelUse kernel_use(const OpView& op);

// Seconds that so many bytes take over the link between two places, whatever starts the copy.
double copy_seconds(MemorySpace from, MemorySpace to, double bytes, const DeviceModel& device);
// The same from other ranks of a group, without the latency.
double gather_seconds(double bytes, const DeviceModel& device);

// Seconds that an op takes alone: what it was measured to take, otherwise the longer of arithmetic and memory
// traffic; where the bytes cross a link, no less than the link takes; and the overhead of starting it.
double op_seconds(const Graph& graph, const Op& op, const DeviceModel& device);

// The kinds of ops that go by other rates than their own, though the device's kernels were measured, where they
// take a part of the time that matters: a file that was written before there were such ops, most likely. What only moves
// bytes goes by the rates of links and memory.
std::vector<std::string> kinds_without_rates(const Graph& graph, const DeviceModel& device);

// By op: seconds that memory takes for its operands, each at the rate of the cache that still holds it: by
// the bytes touched since the op that touched it last and, for what is written, until the next. All steps are
// alike, so the last op is followed by the first. Zeros where the device's levels are not known.
std::vector<double> memory_seconds(const Graph& graph, const DeviceModel& device);

// By op: no less than either.
std::vector<double> op_durations(const Graph& graph, const DeviceModel& device);

// By op of a differentiated graph: what op_durations gives it at least, whatever a plan puts between these ops, and what it
// gives one that makes the same again. `may_leave`: by value, whether a plan may have it copied where it is made.
struct LeastDurations {
  std::vector<double> first, again;
};
LeastDurations least_durations(const Graph& graph, const std::vector<char>& may_leave,
                               const DeviceModel& device);

// Of the optimizer's ops that compute: what op_durations gives them at least in the program of any other plan, where `graph`
// is that of the plan which saves everything on the device.
double least_optimizer_seconds(const Graph& graph, const DeviceModel& device);

}  // namespace recollect
