#include "engine/runtime/step_timeline.h"

#include <algorithm>
#include <array>

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

namespace {

// The median over all steps of what `of` returns for each.
template <typename Of>
int64_t median(const std::vector<StepTimeline>& steps, const Of& of) {
  std::vector<int64_t> all;
  for (const StepTimeline& step : steps) all.push_back(of(step));
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

}  // namespace

StepTimeline median_of(const std::vector<StepTimeline>& steps, const std::vector<StreamId>& streams) {
  require(!steps.empty(), "a median of something");
  StepTimeline result = steps.back();
  int64_t begin = 0;
  for (std::size_t r = 0; r < result.runs.size(); ++r) {
    StepTimeline::Run& run = result.runs[r];
    const auto before = [&](const StepTimeline& s) { return s.runs[r].begin - (r ? s.runs[r - 1].end : 0); };
    const int64_t length =
        median(steps, [&](const StepTimeline& s) { return s.runs[r].end - s.runs[r].begin; });
    run.begin = begin + median(steps, before);
    std::array<int64_t, kStreamCount> now;
    now.fill(run.begin);
    for (std::size_t i = 0; i < run.ops.size(); ++i) {
      OpTime& op = run.ops[i];
      if (!op.ran()) continue;
      const auto of = [&](const auto& part) {
        return median(steps, [&](const StepTimeline& s) { return part(s.runs[r].ops[i], s.runs[r].begin); });
      };
      int64_t& free = now[static_cast<std::size_t>(streams[static_cast<std::size_t>(run.first) + i])];
      op.begin = std::max(free, run.begin + of([](const OpTime& o, int64_t from) { return o.begin - from; }));
      op.end = op.begin + of([](const OpTime& o, int64_t) { return o.end - o.begin; });
      op.waited = std::min(op.begin - free, of([](const OpTime& o, int64_t) { return o.waited; }));
      op.stood = std::min(op.end - op.begin, of([](const OpTime& o, int64_t) { return o.stood; }));
      free = op.end;
    }
    run.end = std::max(run.begin + length, *std::max_element(now.begin(), now.end()));
    begin = run.end;
  }
  result.end = begin + median(steps, [](const StepTimeline& s) { return s.end - s.runs.back().end; });
  return result;
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
