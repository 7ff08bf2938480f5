#include "checkpointing/recompute.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>

#include "checkpointing/binomial.h"
#include "checkpointing/gather_ahead.h"
#include "engine/graph/graph_edit.h"
#include "engine/graph/op_def.h"

namespace recollect {

namespace {

constexpr OpId kMostOps = 1 << 18;  // mode constant_memory runs n (n - 1) / 2 layers again

class Recomputer {
 public:
  Recomputer(Graph& graph, const SavedActivations& saved, const Plan& plan)
      : graph_(graph), edit_(graph), analysis_(saved), replay_(plan.replay) {
    for (ValueId v : saved.values()) {
      const auto decision = plan.values.find(graph_.value(v).name);
      require(decision != plan.values.end(), "the plan says nothing of " + graph_.value(v).name);
      if (decision->second.save) saved_.insert(v);
    }
    for (std::size_t layer = 0; layer + 1 < saved.layer_inputs().size(); ++layer)
      inputs_at_a_time_ += saved_.contains(saved.layer_inputs()[layer]) ? 1 : 0;
  }

  Recomputed run() {
    for (OpId id : graph_.op_ids()) {
      Op& op = graph_.op(id);
      if (op.phase != Phase::kBackward) continue;
      if (op.layer != layer_) enter(op.layer);
      reader_ = id;
      for (ValueId& v : op.inputs) v = wanted(v);
      if (too_many_) return {.refusal = too_many_ops()};
    }
    edit_.commit();
    return {.values = std::move(made_)};
  }

 private:
  // Backward comes to another layer: forget what the replay rule does not hold, and note what it will.
  void enter(int layer) {
    if (replay_ != Replay::kSegment)
      std::erase_if(remade_, [&](const auto& item) { return !held_.contains(item.first) || layer < 0; });
    layer_ = layer;
    if ((replay_ != Replay::kBisect && replay_ != Replay::kBinomial) || layer < 0) return;
    const std::vector<ValueId>& inputs = analysis_.layer_inputs();
    const auto is_there = [&](int at) { return saved_.contains(inputs[at]) || remade_.contains(inputs[at]); };
    int low = layer;
    while (low > 0 && !is_there(low)) --low;
    int64_t free = inputs_at_a_time_;
    for (int at = 0; at <= low; ++at) free -= is_there(at) ? 1 : 0;
    held_.clear();
    for (const auto& [value, clone] : remade_) held_.insert(value);  // those that were held on other ways
    for (const int end = layer + 1; end - low > 1; --free) {
      if (replay_ == Replay::kBinomial && free <= 0) break;
      low += replay_ == Replay::kBinomial ? static_cast<int>(binomial_split(end - low, free + 1))
                                          : (end - low) / 2;
      held_.insert(inputs[low]);
    }
  }

  // What an op of backward reads. A gathered value that was only passed on the way to this layer is not
  // held whole until then.
  ValueId wanted(ValueId v) {
    if (!analysis_.is_gathered(v)) return available(v);
    const auto found = remade_.find(v);
    if (found == remade_.end() || graph_.value(found->second).layer != layer_) {
      const Op& gather = graph_.op(graph_.value(v).producer);
      for (ValueId part : gather.inputs) available(part);
      clone(gather, Role::kGather, StreamId::kGather);
    }
    return remade_.at(v);
  }

  // Whether backward could read this value and its clone is still to be made.
  bool is_missing(ValueId v) const {
    if (v == kNone || saved_.contains(v) || remade_.contains(v)) return false;
    const Value& value = graph_.value(v);
    if (value.persistent || value.producer == kNone) return false;
    const Op& producer = graph_.op(value.producer);
    return producer.phase == Phase::kForward && !writes_accumulators(producer);
  }

  // The value itself where it is still there, otherwise its clone. (What is saved may have one too, made
  // beside another output.)
  ValueId current(ValueId v) const {
    const auto found = saved_.contains(v) ? remade_.end() : remade_.find(v);
    return found == remade_.end() ? v : found->second;
  }

  // The same, made now if need be, and before it whatever it is made of. Not by recursion: in some modes that
  // is all layers before it.
  ValueId available(ValueId v) {
    std::vector<OpId> to_make;
    if (is_missing(v)) to_make.push_back(graph_.value(v).producer);
    while (!to_make.empty()) {
      const Op& op = graph_.op(to_make.back());
      const auto input =
          std::find_if(op.inputs.begin(), op.inputs.end(), [&](ValueId in) { return is_missing(in); });
      if (input != op.inputs.end()) {
        to_make.push_back(graph_.value(*input).producer);
      } else {
        clone(op, Role::kRecompute, op.stream);
        to_make.pop_back();
      }
    }
    return current(v);
  }

  // All that it reads is there.
  void clone(const Op& original, Role role, StreamId stream) {
    const std::string prefix = role == Role::kGather ? "gathered/" : "recompute/";
    Op clone = original;
    for (ValueId& input : clone.inputs) input = current(input);
    clone.name = prefix + original.name;
    clone.phase = Phase::kBackward;
    clone.role = role;
    clone.stream = stream;
    clone.layer = layer_;  // it belongs to the backward that asked for it
    for (ValueId& output : clone.outputs) {
      Value copy = graph_.value(output);
      copy.name = prefix + copy.name;
      copy.layer = layer_;
      const ValueId again = graph_.add_value(std::move(copy));
      remade_[output] = again;
      made_.push_back({output, again});
      output = again;
    }
    edit_.insert_before(reader_, std::move(clone));
    too_many_ = reader_ + ++clones_ > kMostOps;
  }

  static Error too_many_ops() {
    return Error(ExitCode::kConfiguration,
                 "a step would run more than " + std::to_string(kMostOps) +
                     " ops: what is not saved is run again too often",
                 "use another mode, such as every_k or sqrt, or fewer layers");
  }

  bool writes_accumulators(const Op& op) const {
    return std::any_of(op.outputs.begin(), op.outputs.end(),
                       [&](ValueId v) { return v != kNone && graph_.value(v).accumulator; });
  }

  Graph& graph_;
  GraphEdit edit_;
  const SavedActivations& analysis_;
  Replay replay_;
  std::set<ValueId> saved_;                      // by the plan
  std::unordered_map<ValueId, ValueId> remade_;  // original -> its newest clone
  std::set<ValueId> held_;                       // originals whose clones outlive the layer
  int64_t inputs_at_a_time_ = 0;                 // of layers, that a binomial replay holds
  int layer_ = -2;
  OpId reader_ = kNone;  // the op of backward before which clones are inserted
  OpId clones_ = 0;
  bool too_many_ = false;
  std::vector<Reproduction> made_;
};

}  // namespace

Recomputed recompute(Graph& graph, const SavedActivations& saved, const Plan& plan) {
  Recomputed made = Recomputer(graph, saved, plan).run();
  if (!made.refusal) gather_ahead(graph);
  return made;
}

GatheredAgain gathered_again(const Graph& graph) {
  GatheredAgain sum;
  for (const Op& op : graph.ops()) {
    if (op.role != Role::kGather) continue;
    const uint64_t part = graph.value(op.inputs.front()).bytes(),
                   whole = graph.value(op.outputs.front()).bytes();
    ++sum.values;
    sum.saved_bytes += whole - part;
    sum.gathered_bytes += whole;
  }
  return sum;
}

double recomputed_flops(const Graph& graph) {
  double flops = 0;
  for (const Op& op : graph.ops())
    if (op.role == Role::kRecompute) flops += op.def->cost(OpView{graph, op}).flops;
  return flops;
}

}  // namespace recollect
