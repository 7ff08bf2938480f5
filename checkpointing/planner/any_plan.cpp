#include "checkpointing/planner/any_plan.h"

#include <algorithm>
#include <array>
#include <vector>

#include "checkpointing/op_time.h"
#include "engine/runtime/kernel.h"

namespace recollect {

namespace {

// One run of ops, from `begin` to before `end`.
class Ends {
 public:
  Ends(const Graph& graph, const Schedule& schedule, const DeviceModel& device, OpId begin, OpId end)
      : graph_(graph), schedule_(schedule), device_(device), begin_(begin), end_(end) {
    for (OpId id = begin; id < end; ++id)
      if (computes(id)) {
        if (first_ == kNone) first_ = id;
        last_ = id;
      }
  }

  double seconds() const { return first_ == kNone ? 0 : before_first() + behind_last(); }

 private:
  using ByStream = std::array<double, kStreamCount>;

  bool runs(OpId id) const { return RunState{.micro_batches = 1}.runs(graph_.op(id).when); }
  bool computes(OpId id) const { return graph_.op(id).stream == StreamId::kCompute && runs(id); }

  // The ops of a stream run one behind the other.
  void add(ByStream& sums, OpId id) const {
    if (runs(id))
      sums[static_cast<std::size_t>(graph_.op(id).stream)] += op_seconds(graph_, graph_.op(id), device_);
  }
  static double longest(const ByStream& sums) { return *std::max_element(sums.begin(), sums.end()); }

  double before_first() const {
    ByStream sums{};
    std::vector<char> counted(static_cast<std::size_t>(first_ - begin_), 0);
    std::vector<OpId> open = schedule_.waits[first_];
    while (!open.empty()) {
      const OpId id = open.back();
      open.pop_back();
      if (id < begin_ || counted[static_cast<std::size_t>(id - begin_)]++) continue;
      add(sums, id);
      open.insert(open.end(), schedule_.waits[id].begin(), schedule_.waits[id].end());
    }
    return longest(sums);
  }

  double behind_last() const {
    ByStream sums{};
    std::vector<char> follows(static_cast<std::size_t>(end_ - last_), 0);
    follows[0] = 1;
    for (OpId id = last_ + 1; id < end_; ++id) {
      const std::vector<OpId>& waits = schedule_.waits[id];
      follows[static_cast<std::size_t>(id - last_)] = std::any_of(
          waits.begin(), waits.end(),
          [&](OpId before) { return before >= last_ && follows[static_cast<std::size_t>(before - last_)]; });
      if (follows[static_cast<std::size_t>(id - last_)]) add(sums, id);
    }
    return longest(sums);
  }

  const Graph& graph_;
  const Schedule& schedule_;
  const DeviceModel& device_;
  OpId begin_, end_, first_ = kNone, last_ = kNone;
};

}  // namespace

double seconds_of_any_plan(const Graph& graph, const Schedule& schedule, const DeviceModel& device,
                           const Simulation& step) {
  const auto count = static_cast<OpId>(graph.ops().size());
  OpId optimizer = 0;
  while (optimizer < count && graph.op(optimizer).phase != Phase::kOptimizer) ++optimizer;
  const double ends = Ends(graph, schedule, device, 0, optimizer).seconds();
  // Its ops are the same, and where memory has one rate they take the same.
  if (device.memory_levels.empty()) return ends + step.optimizer_seconds;
  return ends + least_optimizer_seconds(graph, device) +
         Ends(graph, schedule, device, optimizer, count).seconds();
}

}  // namespace recollect
