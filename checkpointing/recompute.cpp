#include "checkpointing/recompute.h"

#include <set>
#include <string>
#include <unordered_map>

#include "checkpointing/gather_ahead.h"
#include "engine/graph/op_def.h"

namespace recollect {

namespace {

constexpr std::string_view kPrefix = "recompute/", kGatherPrefix = "gathered/";

constexpr std::size_t kMostOps = 1 << 18;  // mode poor runs layers again n (n + 1) / 2 times

class Recomputer {
 public:
  Recomputer(Graph& graph, const Plan& plan)
      : graph_(graph), replay_(plan.replay), inputs_(layer_inputs(graph)) {
    for (ValueId v : saved_values(graph)) {
      const auto decision = plan.values.find(graph.value(v).name);
      require(decision != plan.values.end(), "the plan says nothing of " + graph.value(v).name);
      if (!decision->second.keep) continue;
      kept_.insert(v);
    }
  }

  std::vector<Reproduction> run() {
    const std::vector<Op> before = graph_.ops();
    for (const Op& op : before) {
      if (op.phase == Phase::kBackward) {
        if (op.layer != layer_) enter(op.layer);
        Op changed = op;
        for (ValueId& v : changed.inputs) v = wanted(v);
        ops_.push_back(std::move(changed));
      } else {
        ops_.push_back(op);
      }
    }
    graph_.set_ops(std::move(ops_));
    return std::move(made_);
  }

 private:
  // Backward comes to another layer: forget what the replay rule does not hold, and note what it will.
  void enter(int layer) {
    if (replay_ != Replay::kSegment)
      std::erase_if(remade_, [&](const auto& item) { return !held_.contains(item.first) || layer < 0; });
    layer_ = layer;
    if (replay_ != Replay::kBisect || layer < 0) return;
    int low = layer;
    while (low > 0 && !kept_.contains(inputs_[low]) && !remade_.contains(inputs_[low])) --low;
    held_.clear();
    for (const auto& [value, clone] : remade_) held_.insert(value);  // those of earlier halvings
    for (const int end = layer + 1; end - low > 1;) {
      low = (low + end) / 2;
      held_.insert(inputs_[low]);
    }
  }

  // What an op of backward reads. A gathered value that was only passed on the way to this layer is not
  // held whole until then.
  ValueId wanted(ValueId v) {
    if (v == kNone || !is_gathered(graph_, v)) return available(v);
    const auto found = remade_.find(v);
    if (found == remade_.end() || graph_.value(found->second).layer != layer_)
      clone(graph_.op(graph_.value(v).producer), kGatherPrefix, StreamId::kGather);
    return remade_.at(v);
  }

  // The value itself where it is still there, otherwise its clone, made now if need be.
  ValueId available(ValueId v) {
    if (v == kNone) return v;
    const Value& value = graph_.value(v);
    if (value.persistent || value.producer == kNone || kept_.contains(v)) return v;
    const Op& producer = graph_.op(value.producer);
    if (producer.phase != Phase::kForward || writes_accumulators(producer)) return v;
    if (const auto found = remade_.find(v); found != remade_.end()) return found->second;
    clone(producer, kPrefix, producer.stream);
    return remade_.at(v);
  }

  void clone(const Op& original, std::string_view prefix, StreamId stream) {
    Op clone = original;
    for (ValueId& input : clone.inputs) input = available(input);
    clone.name = std::string(prefix) + original.name;
    clone.phase = Phase::kBackward;
    clone.stream = stream;
    clone.layer = layer_;  // it belongs to the backward that asked for it
    for (ValueId& output : clone.outputs) {
      Value copy = graph_.value(output);
      copy.name = std::string(prefix) + copy.name;
      copy.layer = layer_;
      const ValueId again = graph_.add_value(std::move(copy));
      remade_[output] = again;
      made_.push_back({output, again});
      output = again;
    }
    ops_.push_back(std::move(clone));
    if (ops_.size() > kMostOps)
      throw Error(ExitCode::kConfiguration,
                  "a step would run more than " + std::to_string(kMostOps) +
                      " ops: what is not kept is run again too often",
                  "use another mode, such as every_k or sqrt, or fewer layers");
  }

  bool writes_accumulators(const Op& op) const {
    for (ValueId v : op.outputs)
      if (v != kNone && graph_.value(v).accumulator) return true;
    return false;
  }

  Graph& graph_;
  Replay replay_;
  std::vector<ValueId> inputs_;
  std::set<ValueId> kept_;
  std::unordered_map<ValueId, ValueId> remade_;  // original -> its newest clone
  std::set<ValueId> held_;                       // originals whose clones outlive the layer (kBisect)
  int layer_ = -2;
  std::vector<Op> ops_;
  std::vector<Reproduction> made_;
};

}  // namespace

std::vector<Reproduction> recompute(Graph& graph, const Plan& plan) {
  std::vector<Reproduction> made = Recomputer(graph, plan).run();
  gather_ahead(graph);
  return made;
}

GatheredAgain gathered_again(const Graph& graph) {
  GatheredAgain sum;
  for (const Op& op : graph.ops()) {
    if (!op.name.starts_with(kGatherPrefix)) continue;
    const uint64_t part = graph.value(op.inputs.front()).bytes(),
                   whole = graph.value(op.outputs.front()).bytes();
    ++sum.values;
    sum.saved_bytes += whole - part;
    sum.gathered_bytes += whole;
  }
  return sum;
}

bool is_recomputation(std::string_view op_name) { return op_name.starts_with(kPrefix); }

double recomputed_flops(const Graph& graph) {
  double flops = 0;
  for (const Op& op : graph.ops())
    if (is_recomputation(op.name)) flops += op.def->cost(OpView{graph, op}).flops;
  return flops;
}

}  // namespace recollect
