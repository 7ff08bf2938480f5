// Linear modules of the layers in FP8. Each rank scales what it multiplies by itself: its part of a weight, of a divided
// input and of a divided gradient by that part's largest number. A layout of ranks has its own roundings, so.
#include "parallel/layers.h"

namespace recollect {

bool LayerBuilder::is_frozen(ValueId weight) const {
  for (const Parameter& p : parameters_)
    if (p.value == weight) return p.frozen;
  return false;
}

// Backward reads the transposed codes: they are saved in place of x, but where tensor ranks gather x, of which each saves
// its part alone and gathers and quantises it again, and where nothing asks for the weight's gradient.
LayerBuilder::Codes LayerBuilder::quantised_input(const std::string& name, ValueId x, ValueId weight) {
  if (quantised_ == x) return codes_;
  const OpId producer = graph_.value(x).producer;
  const bool gathered = producer != kNone && graph_.op(producer).def->gathers;
  quantised_ = x;
  codes_ = quantised(name, x, gathered || is_frozen(weight) ? "rows" : "both");
  return codes_;
}

LayerBuilder::Codes LayerBuilder::quantised(const std::string& name, ValueId x, const std::string& copies) {
  emit(name, "quantise", {{"format", std::string("e4m3")}, {"copies", copies}}, {x});
  const std::vector<ValueId>& outputs = graph_.ops().back().outputs;
  return {.rows = outputs[outputs.size() - 2], .scale = outputs.back()};
}

// Codes follow from the weight's values alone: those that a step's first micro-batch makes, in both forms, are those that
// every later one would make, until the optimizer changes the weight. (Of a frozen weight it never does: model_graph.cpp.)
LayerBuilder::Codes LayerBuilder::quantised_weight(const std::string& name, ValueId weight) {
  const bool keeps = is_frozen(weight) ? fp8_.keeps_frozen : fp8_.keeps_trained;
  const Codes codes = quantised(name, weight, keeps ? "both" : "rows");
  if (!keeps) return codes;
  Op& op = graph_.op(graph_.value(codes.scale).producer);
  op.when = RunWhen::kFirstMicroBatch;
  for (const ValueId made : op.outputs) {
    graph_.value(made).category = Category::kParameter;
    graph_.value(made).persistent = true;
  }
  return codes;
}

ValueId LayerBuilder::product(const std::string& name, ValueId x, ValueId weight, ValueId bias) {
  const bool fp8 = fp8_.on && !continues();
  std::vector<ValueId> inputs;
  if (!fp8) {
    inputs = {x, operand(name, weight)};
  } else {
    const Codes x8 = quantised_input(name + "/x8", x, weight), w8 = quantised_weight(name + "/w8", weight);
    inputs = {x8.rows, x8.scale, w8.rows, w8.scale, weight};
  }
  if (bias != kNone) inputs.push_back(bias);
  return emit(name, fp8 ? "linear_fp8" : "linear", {}, std::move(inputs));
}

}  // namespace recollect
