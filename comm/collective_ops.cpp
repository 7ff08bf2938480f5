#include "comm/collective_ops.h"

#include <string>
#include <vector>

#include "engine/graph/differentiate.h"

namespace recollect {
namespace {

void check(bool condition, const OpView& v, const std::string& what) {
  require(condition, v.op.name + " (" + v.op.def->name + "): " + what);
}

int64_t ranks_of(const OpView& v) {
  const std::string& axis = v.attributes().text("axis");
  const int64_t size = v.attributes().integer("size");
  check(!axis.empty(), v, "no axis is named");
  check(size >= 1, v, "size is " + std::to_string(size));
  return size;
}

// The outputs of a collective have the dtype of x. replicated(): all ranks of the axis hold the same;
// sharded(): each holds its part.
OutputSpec replicated(const OpView& v, Shape shape) {
  const Value& x = v.in(0);
  return {
      .shape = shape, .dtype = x.dtype, .placement = x.placement.but_not_over(v.attributes().text("axis"))};
}

OutputSpec sharded(const OpView& v, Shape shape) {
  const Value& x = v.in(0);
  return {.shape = shape, .dtype = x.dtype, .placement = x.placement.and_over(v.attributes().text("axis"))};
}

std::vector<OutputSpec> infer_all_reduce(const OpView& v) {
  ranks_of(v);
  if (v.attributes().has("op")) {
    const std::string& op = v.attributes().text("op");
    check(op == "sum" || op == "max", v, "op is sum or max, not '" + op + "'");
  }
  return {replicated(v, v.in(0).shape)};
}

std::vector<OutputSpec> infer_copy_to_ranks(const OpView& v) {
  ranks_of(v);
  return {{.shape = v.in(0).shape, .dtype = v.in(0).dtype, .placement = v.in(0).placement}};
}

std::vector<OutputSpec> infer_all_gather(const OpView& v) {
  Shape shape = v.in(0).shape;
  check(shape.rank() >= 1, v, "x has rows");
  shape[0] *= ranks_of(v);
  return {replicated(v, shape)};
}

// The output is this rank's part of the rows: of the sum over the ranks, or of a replicated value.
std::vector<OutputSpec> infer_own_part(const OpView& v) {
  Shape shape = v.in(0).shape;
  const int64_t size = ranks_of(v);
  check(shape.rank() >= 1 && shape[0] % size == 0, v,
        "the rows of " + shape.to_string() + " do not divide over " + std::to_string(size) + " ranks");
  shape[0] /= size;
  return {sharded(v, shape)};
}

std::vector<OutputSpec> infer_all_reduce_accumulators(const OpView& v) {
  ranks_of(v);
  check(!v.op.inputs.empty() && v.op.inputs == v.op.outputs, v, "its outputs are its inputs");
  const auto group = static_cast<GroupId>(v.attributes().integer("group"));
  std::vector<OutputSpec> specs;
  for (int i = 0; i < static_cast<int>(v.op.inputs.size()); ++i) {
    const Value& x = v.in(i);
    check(x.accumulator, v, x.name + " is no accumulator");
    check(x.group == group, v, x.name + " is in another group");
    check(i == 0 || v.graph.place_in_group(v.op.inputs[i - 1]) < v.graph.place_in_group(v.op.inputs[i]), v,
          "its values stand in the order of the group");
    specs.push_back({.shape = x.shape, .dtype = x.dtype, .placement = x.placement, .category = x.category});
  }
  return specs;
}

// Accepts the outputs that the caller has made.
std::vector<OutputSpec> given_outputs(const OpView& v) {
  std::vector<OutputSpec> specs;
  for (int i = 0; i < static_cast<int>(v.op.outputs.size()); ++i) {
    const Value& y = v.out(i);
    specs.push_back({.shape = y.shape, .dtype = y.dtype, .placement = y.placement, .category = y.category});
  }
  return specs;
}

void check_part(const OpView& v, ValueId whole_id, const Value& part) {
  const Value& whole = v.graph.value(whole_id);
  check(whole.dtype == part.dtype, v, part.name + " has another dtype than " + whole.name);
  const auto all = part.bytes() * static_cast<uint64_t>(ranks_of(v));
  check(whole.bytes() <= all && all <= v.graph.room_of(whole_id), v,
        whole.name + " has no room for as many parts as " + part.name + " as there are ranks");
}

void check_pairs(const OpView& v) {
  check(!v.op.inputs.empty() && v.op.inputs.size() == v.op.outputs.size(), v,
        "it has as many outputs as inputs");
}

std::vector<OutputSpec> infer_reduce_scatter_accumulators(const OpView& v) {
  check_pairs(v);
  for (int i = 0; i < static_cast<int>(v.op.inputs.size()); ++i) check_part(v, v.op.inputs[i], v.out(i));
  return given_outputs(v);
}

std::vector<OutputSpec> infer_all_gather_accumulators(const OpView& v) {
  check_pairs(v);
  for (int i = 0; i < static_cast<int>(v.op.inputs.size()); ++i) {
    check(v.in(i).part_of == v.op.outputs[i], v, v.in(i).name + " does not lie in what is gathered");
    check_part(v, v.op.outputs[i], v.in(i));
  }
  return given_outputs(v);
}

std::vector<OutputSpec> infer_gather_parts(const OpView& v) {
  check_pairs(v);
  for (int i = 0; i < static_cast<int>(v.op.inputs.size()); ++i) check_part(v, v.op.outputs[i], v.in(i));
  return given_outputs(v);
}

std::vector<OutputSpec> infer_broadcast_rows(const OpView& v) {
  const Value &x = v.in(0), &y = v.out(0);
  const int64_t first = v.attributes().integer("first_row"), all = x.shape[0] * ranks_of(v);
  check(first >= 0 && y.shape[0] >= 1 && first + y.shape[0] <= all, v,
        "there are rows 0 to " + std::to_string(all));
  check(x.dtype == y.dtype && x.bytes() * y.shape[0] == y.bytes() * x.shape[0], v,
        "the rows of " + y.name + " are not like those of " + x.name);
  return given_outputs(v);
}

std::vector<OutputSpec> infer_joined_rows(const OpView& v) {
  const Value& y = v.out(0);
  uint64_t bytes = 0;
  for (int i = 0; i < static_cast<int>(v.op.inputs.size()); ++i) {
    const Value& part = v.in(i);
    check(part.part_of == v.op.outputs[0] && part.part_offset == bytes, v,
          part.name + " does not lie there in " + y.name);
    bytes += part.bytes();
  }
  check(bytes == y.bytes(), v, "its parts are not all of " + y.name);
  return given_outputs(v);
}

// `rounds`: how often a byte of the whole crosses the link when there are many ranks. It is 2 for an
// all-reduce, which is a reduce-scatter followed by an all-gather. Over `size` ranks the factor is rounds *
// (size - 1) / size.
Cost collective_cost(const OpView& v, double rounds, double flops_per_element) {
  const auto size = static_cast<double>(v.attributes().integer("size"));
  Cost cost;
  for (int i = 0; i < static_cast<int>(v.op.inputs.size()); ++i) {
    const double in = static_cast<double>(v.in(i).bytes()), out = static_cast<double>(v.out(i).bytes());
    cost.bytes += in + out;
    cost.flops += flops_per_element * static_cast<double>(v.in(i).shape.elements()) * (size - 1) / size;
    cost.link_bytes += rounds * std::max(in, out) * (size - 1) / size;
  }
  return cost;
}

// The ranks send one after another, with one call for each rank that owns some of the rows.
Cost broadcast_rows_cost(const OpView& v) {
  const int64_t n = v.in(0).shape[0], first = v.attributes().integer("first_row");
  const int64_t owners = (first + v.out(0).shape[0] - 1) / n - first / n + 1;
  const auto bytes = static_cast<double>(v.out(0).bytes());
  return {.bytes = 2 * bytes, .link_bytes = bytes, .exchanges = static_cast<double>(owners - 1)};
}

Cost copy_cost(const OpView& v) { return {.bytes = 2.0 * static_cast<double>(v.in(0).bytes())}; }

Cost own_part_cost(const OpView& v) { return {.bytes = 2.0 * static_cast<double>(v.out(0).bytes())}; }

void all_reduce_gradient(GradientBuilder& g, OpId id) {
  const Op& op = g.graph().op(id);
  require(!op.attributes.has("op") || op.attributes.text("op") == "sum",
          op.name + ": no gradient flows through a maximum over ranks");
  g.contribute(op.inputs[0], g.upstream(op.outputs[0]));
}

void emit_for_upstream(GradientBuilder& g, OpId id, const std::string& kind) {
  const Op op = g.graph().op(id);
  g.contribute(op.inputs[0], g.emit("backward", kind, op.attributes, {g.upstream(op.outputs[0])}));
}

}  // namespace

void register_comm_ops(OpRegistry& registry) {
  registry.add({.name = "all_reduce",
                .infer = infer_all_reduce,
                .cost = [](const OpView& v) { return collective_cost(v, 2, 1); },
                .gradient = all_reduce_gradient,
                .in_place = {{0, 0}},
                .unit = Unit::kCollective});
  registry.add({.name = "copy_to_ranks",
                .infer = infer_copy_to_ranks,
                .cost = copy_cost,
                .gradient = [](GradientBuilder& g, OpId id) { emit_for_upstream(g, id, "all_reduce"); },
                .in_place = {{0, 0}},
                .unit = Unit::kCopy,
                .passes_on = true});
  registry.add({.name = "all_gather",
                .infer = infer_all_gather,
                .cost = [](const OpView& v) { return collective_cost(v, 1, 0); },
                .gradient = [](GradientBuilder& g, OpId id) { emit_for_upstream(g, id, "reduce_scatter"); },
                .unit = Unit::kCollective,
                .gathers = true});
  registry.add({.name = "reduce_scatter",
                .infer = infer_own_part,
                .cost = [](const OpView& v) { return collective_cost(v, 1, 1); },
                .gradient = [](GradientBuilder& g, OpId id) { emit_for_upstream(g, id, "all_gather"); },
                .unit = Unit::kCollective});
  registry.add({.name = "gather_from_ranks",
                .infer = infer_all_gather,
                .cost = [](const OpView& v) { return collective_cost(v, 1, 0); },
                .gradient = [](GradientBuilder& g, OpId id) { emit_for_upstream(g, id, "take_own_part"); },
                .unit = Unit::kCollective,
                .gathers = true});
  registry.add(
      {.name = "take_own_part",
       .infer = infer_own_part,
       .cost = own_part_cost,
       .gradient = [](GradientBuilder& g, OpId id) { emit_for_upstream(g, id, "gather_from_ranks"); },
       .unit = Unit::kCopy});
  registry.add({.name = "broadcast_rows",
                .infer = infer_broadcast_rows,
                .cost = broadcast_rows_cost,
                .unit = Unit::kCollective,
                .measured_as = "all_gather"});
  registry.add({.name = "joined_rows",
                .infer = infer_joined_rows,
                .cost = [](const OpView&) { return Cost{}; },
                .names_alone = true});
  registry.add({.name = "all_reduce_accumulators",
                .infer = infer_all_reduce_accumulators,
                .cost = [](const OpView& v) { return collective_cost(v, 2, 1); },
                .unit = Unit::kCollective});
  registry.add({.name = "reduce_scatter_accumulators",
                .infer = infer_reduce_scatter_accumulators,
                .cost = [](const OpView& v) { return collective_cost(v, 1, 1); },
                .unit = Unit::kCollective,
                .measured_as = "reduce_scatter"});
  registry.add({.name = "gather_parts",
                .infer = infer_gather_parts,
                .cost = [](const OpView& v) { return collective_cost(v, 1, 0); },
                .unit = Unit::kCollective,
                .measured_as = "all_gather"});
  registry.add({.name = "all_gather_accumulators",
                .infer = infer_all_gather_accumulators,
                .cost = [](const OpView& v) { return collective_cost(v, 1, 0); },
                .unit = Unit::kCollective,
                .measured_as = "all_gather"});
}

}  // namespace recollect
