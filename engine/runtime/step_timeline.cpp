#include "engine/runtime/step_timeline.h"

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
  add(0, 0, optimizer);
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
  return run.micro_batch == 0 && micro_batches > 1 ? micro_batches - 1 : 1;
}

}  // namespace recollect
