#include "engine/runtime/step_timeline.h"

#include <algorithm>

namespace recollect {

StepTimeline StepTimeline::blank(const Graph& graph, int64_t micro_batches) {
  const auto count = static_cast<OpId>(graph.ops().size());
  OpId optimizer = 0;
  while (optimizer < count && graph.op(optimizer).phase != Phase::kOptimizer) ++optimizer;
  StepTimeline timeline{.micro_batches = micro_batches};
  const auto add = [&](int64_t micro_batch, OpId first, OpId last) {
    timeline.runs.push_back({.micro_batch = micro_batch, .first = first});
    timeline.runs.back().ops.resize(static_cast<std::size_t>(last - first));
  };
  const auto begins = [](const Op& op) { return op.when == RunWhen::kFirstMicroBatch; };
  add(0, 0, optimizer);
  if (micro_batches > 2 && std::any_of(graph.ops().begin(), graph.ops().end(), begins)) add(1, 0, optimizer);
  if (micro_batches > 1) add(micro_batches - 1, 0, optimizer);
  add(kOptimizer, optimizer, count);
  return timeline;
}

StepTimeline::Run* StepTimeline::find(int64_t micro_batch) {
  for (Run& run : runs)
    if (run.micro_batch == micro_batch) return &run;
  return nullptr;
}

int64_t StepTimeline::stands_for(const Run& run) const {
  int64_t kept = 0, before_last = kOptimizer;
  for (const Run& other : runs) {
    if (other.micro_batch == kOptimizer) continue;
    ++kept;
    if (other.micro_batch + 1 < micro_batches) before_last = std::max(before_last, other.micro_batch);
  }
  if (run.micro_batch == kOptimizer || run.micro_batch != before_last) return 1;
  return std::max<int64_t>(1, 1 + micro_batches - kept);
}

}  // namespace recollect
