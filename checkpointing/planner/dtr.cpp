#include "checkpointing/planner/dtr.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "checkpointing/op_time.h"
#include "checkpointing/recompute.h"
#include "engine/core/arena.h"
#include "engine/graph/op_def.h"
#include "engine/runtime/lifetime.h"

namespace recollect {

namespace {

constexpr int kDtrSteps = 16, kDtrHalvings = 4;
constexpr int kDtrMostRuns = 32;  // of an op, on average: more is no plan to train by

class DtrTracer {
 public:
  DtrTracer(const Graph& graph, const SavedActivations& saved, const DeviceModel& device)
      : graph_(graph), saved_(saved), device_(device) {}

  DtrTrace run() {
    traced_.tensors.assign(graph_.values().size(), -1);
    last_.assign(graph_.values().size(), kNone);
    find_last_uses();
    for (OpId id : graph_.op_ids()) add(id);
    return std::move(traced_);
  }

 private:
  bool is_tensor(ValueId v) const { return v != kNone && !persists(graph_.value(v)); }

  // An op that adds into accumulators cannot run twice, and a plan recomputes nothing of backward.
  bool can_run_again(const Op& op) const {
    return op.phase == Phase::kForward && std::none_of(op.outputs.begin(), op.outputs.end(), [&](ValueId v) {
             return v != kNone && graph_.value(v).accumulator;
           });
  }

  // What is gathered again whatever the plan is held in forward alone. An input that begins its layer's
  // recomputation is held until that layer's backward ends.
  void find_last_uses() {
    const std::vector<ValueId>& inputs = saved_.layer_inputs();
    for (OpId id : graph_.op_ids()) {
      const Op& op = graph_.op(id);
      for (const auto* list : {&op.outputs, &op.inputs})
        for (ValueId v : *list)
          if (is_tensor(v) && !(op.phase == Phase::kBackward && saved_.is_gathered(v))) last_[v] = id;
      if (op.phase != Phase::kBackward || op.layer < 0 || op.layer >= static_cast<int>(inputs.size()))
        continue;
      if (const ValueId v = inputs[op.layer]; saved_.only_begins_layer(v)) last_[v] = std::max(last_[v], id);
    }
    ending_.resize(graph_.ops().size());
    for (ValueId v : graph_.value_ids())
      if (last_[v] != kNone) ending_[last_[v]].push_back(v);
  }

  void add(OpId id) {
    const Op& op = graph_.op(id);
    EvictionOp& traced = traced_.trace.ops.emplace_back();
    // Whole nanoseconds, one at least: an op lets time go by.
    traced.cost = static_cast<uint64_t>(std::max(1.0, std::round(op_seconds(graph_, op, device_) * 1e9)));
    for (ValueId v : op.inputs)
      if (is_tensor(v)) traced.inputs.push_back(traced_.tensors[v]);
    for (ValueId v : op.outputs)
      if (is_tensor(v) && traced_.tensors[v] < 0) {
        traced_.tensors[v] = static_cast<int>(traced_.trace.tensors.size());
        traced_.trace.tensors.push_back({aligned(graph_.value(v).bytes()), !can_run_again(op)});
        traced.outputs.push_back(traced_.tensors[v]);
      }
    for (ValueId v : ending_[id]) traced.releases.push_back(traced_.tensors[v]);
    add_in_place(id, traced);
  }

  // As the layout lets an output take its input's storage.
  void add_in_place(OpId id, EvictionOp& traced) const {
    const Op& op = graph_.op(id);
    std::vector<ValueId> taken;
    for (const auto& [o, i] : op.def->in_place) {
      if (o >= static_cast<int>(op.outputs.size()) || i >= static_cast<int>(op.inputs.size())) continue;
      const ValueId out = op.outputs[o], in = op.inputs[i];
      if (!is_tensor(out) || !is_tensor(in) || last_[in] != id || saved_.is_gathered(in) ||
          std::count(op.inputs.begin(), op.inputs.end(), in) > 1 ||
          std::find(taken.begin(), taken.end(), in) != taken.end() ||
          aligned(graph_.value(in).bytes()) != aligned(graph_.value(out).bytes()))
        continue;
      const Op& maker = graph_.op(graph_.value(in).producer);
      if (maker.phase == Phase::kForward && !can_run_again(maker)) continue;  // it may have to stay
      taken.push_back(in);
      traced.in_place.emplace_back(traced_.tensors[out], traced_.tensors[in]);
    }
  }

  const Graph& graph_;
  const SavedActivations& saved_;
  const DeviceModel& device_;
  DtrTrace traced_;
  std::vector<OpId> last_;  // by value: the op after which the program reads it no more
  std::vector<std::vector<ValueId>> ending_;
};

Plan dtr_plan_of(const Graph& graph, const SavedActivations& saved, const DtrTrace& traced,
                 const EvictionRun& run) {
  std::vector<char> evicted(traced.trace.tensors.size(), 0), read(evicted);
  for (const auto& [kind, which] : run.steps) {
    if (kind == EvictionStep::kEvict && !read[which]) evicted[which] = 1;
    if (kind != EvictionStep::kRun || graph.op(which).phase != Phase::kBackward) continue;
    for (int t : traced.trace.ops[which].inputs) read[t] = 1;
  }
  Plan plan;
  for (ValueId v : saved.values()) plan.values[graph.value(v).name].save = !evicted[traced.tensors[v]];
  return plan;
}

double dtr_seconds_of(Graph graph, const SavedActivations& saved, const DeviceModel& device,
                      const Plan& plan) {
  require(!recompute(graph, saved, plan).refusal, "a plan that runs each op twice at most is refused");
  double seconds = 0;
  for (const Op& op : graph.ops())
    if (op.role != Role::kStep) seconds += op_seconds(graph, op, device);
  return seconds;
}

void hold_layer_inputs(const SavedActivations& saved, DtrTrace& traced) {
  for (ValueId v : saved.layer_inputs())
    if (v != kNone && traced.tensors[v] >= 0) traced.trace.tensors[traced.tensors[v]].held = true;
}

enum class DtrTrial { kFits, kExceeds, kNoPlan };

class DtrTrials {
 public:
  DtrTrials(const Graph& graph, const SavedActivations& saved, uint64_t budget, EvictionHeuristic heuristic,
            const DtrMeasures& measures)
      : graph_(graph), saved_(saved), budget_(budget), heuristic_(heuristic), measures_(measures) {}

  const std::optional<DtrResult>& best() const { return best_; }

  // True where the plan of the whole budget fits.
  bool search(const DtrTrace& traced) {
    const uint64_t step = std::max<uint64_t>(1, budget_ / kDtrSteps);
    uint64_t fits = budget_;
    DtrTrial trial = attempt(traced, fits);
    if (trial == DtrTrial::kFits) return true;
    while (trial == DtrTrial::kExceeds && fits > step) trial = attempt(traced, fits -= step);
    if (trial != DtrTrial::kFits) return false;
    uint64_t exceeds = fits + step;
    for (int i = 0; i < kDtrHalvings; ++i) {
      const uint64_t middle = fits + (exceeds - fits) / 2;
      (attempt(traced, middle) == DtrTrial::kFits ? fits : exceeds) = middle;
    }
    return false;
  }

 private:
  DtrTrial attempt(const DtrTrace& traced, uint64_t simulated) {
    const int most_runs = kDtrMostRuns * static_cast<int>(traced.trace.ops.size());
    const EvictionRun run = run_with_eviction(traced.trace, simulated, heuristic_, most_runs);
    if (run.end != EvictionEnd::kDone) return DtrTrial::kNoPlan;
    DtrResult result{.plan = dtr_plan_of(graph_, saved_, traced, run), .evictions = run.evictions};
    result.peak = peak_of(result.plan);
    if (result.peak > budget_) return DtrTrial::kExceeds;
    result.seconds = measures_.seconds(result.plan);
    if (!best_ || result.seconds < best_->seconds) best_ = std::move(result);
    return DtrTrial::kFits;
  }

  uint64_t peak_of(const Plan& plan) {
    for (const auto& [other, peak] : known_)
      if (other == plan) return peak;
    return known_.emplace_back(plan, measures_.peak(plan)).second;
  }

  const Graph& graph_;
  const SavedActivations& saved_;
  const uint64_t budget_;
  const EvictionHeuristic heuristic_;
  const DtrMeasures& measures_;
  std::vector<std::pair<Plan, uint64_t>> known_;
  std::optional<DtrResult> best_;
};

}  // namespace

DtrTrace trace_of(const Graph& graph, const SavedActivations& saved, const DeviceModel& device) {
  return DtrTracer(graph, saved, device).run();
}

std::vector<Plan> dtr_plans(const Graph& graph, const SavedActivations& saved, const DeviceModel& device,
                            uint64_t steps) {
  std::vector<Plan> plans;
  DtrTrace traced = trace_of(graph, saved, device);
  const int most_runs = kDtrMostRuns * static_cast<int>(traced.trace.ops.size());
  const auto run = [&](uint64_t budget) {
    return run_with_eviction(traced.trace, budget, EvictionHeuristic::kDtrEq, most_runs);
  };
  const uint64_t step = run(~uint64_t{0}).peak / (steps + 1);
  for (const bool hold : {false, true}) {
    if (hold) hold_layer_inputs(saved, traced);
    for (uint64_t i = steps; i > 0; --i) {
      const EvictionRun simulated = run(i * step);
      if (simulated.end != EvictionEnd::kDone) break;
      plans.push_back(dtr_plan_of(graph, saved, traced, simulated));
    }
  }
  return plans;
}

std::optional<DtrResult> make_dtr_plan(const Graph& graph, const SavedActivations& saved,
                                       const DeviceModel& device, uint64_t budget,
                                       EvictionHeuristic heuristic, const DtrMeasures& measures) {
  DtrTrials trials(graph, saved, budget, heuristic, measures);
  DtrTrace traced = trace_of(graph, saved, device);
  if (trials.search(traced)) return trials.best();
  hold_layer_inputs(saved, traced);
  trials.search(traced);
  return trials.best();
}

std::optional<DtrResult> make_dtr_plan(const Graph& graph, const SavedActivations& saved,
                                       const DeviceModel& device, uint64_t budget,
                                       EvictionHeuristic heuristic,
                                       const std::function<uint64_t(const Plan&)>& exact_peak) {
  return make_dtr_plan(
      graph, saved, device, budget, heuristic,
      {exact_peak, [&](const Plan& plan) { return dtr_seconds_of(graph, saved, device, plan); }});
}

}  // namespace recollect
