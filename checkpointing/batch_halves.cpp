#include "checkpointing/batch_halves.h"

#include <algorithm>
#include <string>
#include <utility>

#include "checkpointing/collective_pieces.h"
#include "engine/core/error.h"
#include "engine/graph/op_builder.h"

namespace recollect {

namespace {

constexpr std::string_view kSecond = "/second";

class SecondHalf {
 public:
  SecondHalf(Graph& graph, const OpRegistry& registry, int64_t samples)
      : graph_(graph), ops_(graph, registry), samples_(samples), second_(graph.values().size(), kNone) {}

  // Its rows become the first of a value's with twice as many, and the second half's are the others.
  ValueId divide(ValueId first) {
    Value whole = graph_.value(first);
    require(whole.part_of == kNone && whole.group == kNone, whole.name + " is no value of its own");
    const uint64_t bytes = whole.bytes();
    whole.shape[0] *= 2;
    whole.producer = kNone;
    const bool input = graph_.value(first).producer == kNone;
    if (!input) whole.name += "/whole";
    const ValueId second = second_of(first), both = graph_.add_value(std::move(whole));
    second_.resize(graph_.values().size(), kNone);
    if (input) graph_.value(first).name += "/first";
    graph_.value(first).part_of = graph_.value(second).part_of = both;
    graph_.value(second).part_offset = bytes;
    return both;
  }

  // To be called when inputs and logits are divided.
  void add_ops(ValueId logits, ValueId both_logits) {
    add_values();
    std::vector<Op> ops;
    OpId begin = 0;
    const auto size = static_cast<OpId>(graph_.ops().size());
    for (OpId id = 0; id < size; ++id) {
      const bool last_of_phase = id + 1 == size || graph_.op(id + 1).phase != graph_.op(id).phase;
      if (!last_of_phase && !is_overlapped(id)) continue;
      take_turns(begin, id + 1, ops);
      begin = id + 1;
      if (last_of_phase && graph_.op(id).phase == Phase::kForward && logits != kNone)
        ops.push_back(join(logits, both_logits));
    }
    graph_.set_ops(std::move(ops));
  }

 private:
  bool is_overlapped(OpId id) const {
    const Op& op = graph_.op(id);
    return op.def->unit == Unit::kCollective && op.stream == StreamId::kCommunication;
  }

  bool depends(const Op& op) const {
    return std::any_of(op.inputs.begin(), op.inputs.end(),
                       [&](ValueId v) { return v != kNone && second_[v] != kNone; });
  }

  bool is_shared(ValueId v) const { return graph_.value(v).persistent || graph_.value(v).accumulator; }

  void add_values() {
    for (OpId id : graph_.op_ids()) {
      if (!depends(graph_.op(id))) continue;
      const std::vector<ValueId> outputs = graph_.op(id).outputs;
      for (ValueId v : outputs) {
        if (v == kNone) continue;
        require(!is_shared(v) || graph_.value(v).accumulator,
                graph_.value(v).name + " lasts, and is another one for each half");
        if (!is_shared(v)) second_of(v);
      }
    }
  }

  ValueId second_of(ValueId first) {
    if (second_[first] != kNone) return second_[first];
    Value value = graph_.value(first);
    require(value.group == kNone, value.name + " stands in a group");
    value.name += kSecond;
    value.producer = kNone;
    const ValueId whole = value.part_of, second = graph_.add_value(std::move(value));
    second_.resize(graph_.values().size(), kNone);
    second_[first] = second;
    if (whole != kNone) graph_.value(second).part_of = second_of(whole);
    return second;
  }

  void take_turns(OpId begin, OpId end, std::vector<Op>& ops) {
    for (OpId id = begin; id < end; ++id) ops.push_back(graph_.op(id));
    for (OpId id = begin; id < end; ++id)
      if (depends(graph_.op(id))) ops.push_back(of_second(graph_.op(id)));
  }

  Op of_second(Op op) const {
    op.name += kSecond;
    op.first_sample = samples_;
    for (auto* values : {&op.inputs, &op.outputs, &op.after})
      for (ValueId& v : *values)
        if (v != kNone && second_[v] != kNone) v = second_[v];
    const bool adds = std::any_of(op.outputs.begin(), op.outputs.end(),
                                  [&](ValueId v) { return v != kNone && graph_.value(v).accumulator; });
    if (adds) op.accumulate = Accumulate::kAlways;
    return op;
  }

  Op join(ValueId first, ValueId both) const {
    Op op = ops_.make(graph_.value(both).name, "joined_rows", {}, {first, second_[first]});
    op.outputs = {both};
    return op;
  }

  Graph& graph_;
  const OpBuilder ops_;
  const int64_t samples_;
  std::vector<ValueId> second_;  // by value of the first half; kNone where it does not depend on the batch
};

}  // namespace

bool reads_any(const Op& op, const std::vector<char>& of_values) {
  return std::any_of(op.inputs.begin(), op.inputs.end(),
                     [&](ValueId v) { return v != kNone && of_values[static_cast<std::size_t>(v)]; });
}

std::vector<char> values_of_batch(const Graph& graph) {
  std::vector<char> of_batch(graph.values().size(), 0);
  for (ValueId v : graph.value_ids())
    of_batch[v] = graph.value(v).producer == kNone && graph.value(v).category == Category::kInput;
  for (const Op& op : graph.ops())
    if (reads_any(op, of_batch))
      for (ValueId v : op.outputs)
        if (v != kNone) of_batch[v] = 1;
  return of_batch;
}

std::string_view name_in_plan(std::string_view name) {
  if (name.ends_with(kSecond)) name.remove_suffix(kSecond.size());
  return name;
}

void mark_products_of_halves(Graph& graph) {
  for (OpId id : graph.op_ids()) {
    Op& op = graph.op(id);
    if (op.def->unit == Unit::kGemm && op.layer >= 0) op.attributes.set(kBesideCollectives, int64_t{1});
  }
}

std::map<ValueId, ValueId> add_second_half(Graph& graph, const OpRegistry& registry,
                                           const std::vector<ValueId>& inputs, ValueId logits,
                                           int64_t samples) {
  leave_compute_stream(graph);
  SecondHalf half(graph, registry, samples);
  std::map<ValueId, ValueId> both;
  for (ValueId input : inputs) both[input] = half.divide(input);
  if (logits != kNone) both[logits] = half.divide(logits);
  half.add_ops(logits, logits == kNone ? kNone : both[logits]);
  return both;
}

}  // namespace recollect
