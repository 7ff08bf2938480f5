// What passes say to a graph, on lists of a few ops.
#include "engine/graph/graph_edit.h"

#include <gtest/gtest.h>

#include "engine/graph/join_ops.h"
#include "engine/graph/op_builder.h"
#include "engine/ops/ops.h"

namespace recollect::test::graph_edit_test {
namespace {

// a(x) b(a) c(b)
struct Chain {
  Chain() {
    register_engine_ops(registry);
    x = graph.add_value({.name = "x", .shape = {4}, .category = Category::kInput, .persistent = true});
    ValueId last = x;
    for (const char* name : {"a", "b", "c"}) last = ops.append(name, "add", {}, {last, last}).outputs[0];
  }

  Op make(const char* name, ValueId reads) const { return ops.make(name, "add", {}, {reads, reads}); }
  std::string order() const {
    std::string text;
    for (const Op& op : graph.ops()) text += op.name + "(" + graph.value(op.inputs[0]).name + ") ";
    return text;
  }
  ValueId value(const char* name) const { return graph.find(name); }

  OpRegistry registry;
  Graph graph;
  OpBuilder ops{graph, registry};
  ValueId x;
};

constexpr OpId kA = 0, kB = 1, kC = 2;

TEST(OpBuilder, SaysOnceWhatOpsHaveInCommon) {
  Chain g;
  g.ops.common().layer = 5;
  g.ops.common().phase = Phase::kBackward;
  const Op op = g.ops.append("d", "dropout", {{"p", 0.5}}, {g.x});
  EXPECT_EQ(op.def->name, "dropout");
  EXPECT_EQ(op.layer, 5);
  EXPECT_EQ(op.phase, Phase::kBackward);
  EXPECT_EQ(op.attributes.real("p"), 0.5);
  EXPECT_EQ(g.graph.value(op.outputs[0]).layer, 5);
  EXPECT_EQ(g.graph.value(op.outputs[0]).producer, 3);
  EXPECT_THROW(g.ops.append("e", "no such kind", {}, {}), Error);
}

TEST(GraphEdit, InsertsInTheOrderInWhichItIsTold) {
  Chain g;
  GraphEdit edit(g.graph);
  edit.insert_after(kA, g.make("1", g.value("a")));
  edit.insert_after(kA, g.make("2", g.value("a")));
  edit.insert_before(kA, g.make("3", g.x));
  edit.insert_before(kA, g.make("4", g.x));
  EXPECT_EQ(g.order(), "a(x) b(a) c(b) ") << "nothing has happened yet";
  edit.commit();
  EXPECT_EQ(g.order(), "3(x) 4(x) a(x) 1(a) 2(a) b(a) c(b) ");
  EXPECT_EQ(g.graph.value(g.value("c")).producer, 6) << "and producers are known again";
  EXPECT_EQ(g.graph.value(g.value("2")).producer, 4);
}

TEST(GraphEdit, ANewOpIsAPlaceToo) {
  Chain g;
  GraphEdit edit(g.graph);
  const OpId fresh = edit.insert_after(kA, g.make("1", g.value("a")));
  edit.insert_after(fresh, g.make("2", edit.op(fresh).outputs[0]));
  edit.insert_before(fresh, g.make("0", g.value("a")));
  edit.commit();
  EXPECT_EQ(g.order(), "a(x) 0(a) 1(a) 2(1) b(a) c(b) ");
}

TEST(GraphEdit, MovesOps) {
  Chain g;
  GraphEdit edit(g.graph);
  edit.insert_after(kC, g.make("with it", g.value("c")));
  EXPECT_EQ(edit.place(kC), kC);
  edit.move_after(kC, kA);
  EXPECT_EQ(edit.place(kC), kA);
  edit.commit();
  EXPECT_EQ(g.order(), "a(x) c(b) with it(c) b(a) ");
}

TEST(GraphEdit, ReplacesInputs) {
  Chain g;
  GraphEdit edit(g.graph);
  edit.replace_input(kC, g.value("b"), g.value("a"));
  edit.commit();
  EXPECT_EQ(g.order(), "a(x) b(a) c(a) ");
}

TEST(GraphEdit, AnOpMovesOnceAndNotInACircle) {
  Chain g;
  GraphEdit twice(g.graph);
  twice.move_after(kC, kA);
  EXPECT_THROW(twice.move_after(kC, kB), Error);
  GraphEdit circle(g.graph);
  circle.move_after(kC, kB);
  circle.move_after(kB, kC);
  EXPECT_THROW(circle.commit(), Error);
}

TEST(Ids, GoThroughAllOps) {
  const Chain g;
  std::vector<OpId> seen;
  for (OpId id : g.graph.op_ids()) seen.push_back(id);
  EXPECT_EQ(seen, (std::vector<OpId>{0, 1, 2}));
  for (OpId id : Graph().op_ids()) ADD_FAILURE() << id;
}

// A sum and the norm of it, in a list with another norm between others' ops.
TEST(JoinOps, JoinsWhatStandsTogether) {
  OpRegistry registry;
  register_engine_ops(registry);
  Graph graph;
  OpBuilder ops(graph, registry);
  const auto input = [&](const char* name, Shape shape) {
    return graph.add_value({.name = name, .shape = shape, .category = Category::kInput, .persistent = true});
  };
  const ValueId x = input("x", {2, 8}), bias = input("bias", {8}), weight = input("weight", {8});
  const auto sum = [&](const char* name, double p) {
    const Attributes attributes{{"p", p},
                                {"layer", int64_t{0}},
                                {"site", int64_t{0}},
                                {"sequence_length", int64_t{2}},
                                {"first_token", int64_t{0}}};
    return ops.append(name, "bias_dropout_add", attributes, {x, bias, x}).outputs[0];
  };
  const auto norm = [&](const char* name, ValueId of) {
    return ops.append(name, "layer_norm", {{"epsilon", 1e-5}}, {of, weight, bias}).outputs;
  };
  const ValueId a = sum("a", 0);
  const std::vector<ValueId> of_a = norm("norm_a", a);
  norm("other", a);
  const ValueId b = sum("b", 0.5);
  norm("norm_b", b);
  const ValueId c = sum("c", 0);
  ops.append("between", "add", {}, {c, c});
  norm("norm_c", c);
  ops.common().phase = Phase::kBackward;
  norm("later", sum("d", 0));
  ops.common().phase = Phase::kForward;
  const ValueId e = sum("e", 0);
  ops.common().role = Role::kRecompute;
  norm("again", e);

  join_ops(graph, registry);
  std::string list;
  for (const Op& op : graph.ops()) list += op.name + " ";
  EXPECT_EQ(list, "a other b norm_b c between norm_c d e again ");
  const Op& joined = graph.op(0);
  EXPECT_EQ(joined.def->name, "residual_norm");
  EXPECT_EQ(joined.inputs, (std::vector<ValueId>{x, bias, x, weight, bias}));
  EXPECT_EQ(joined.outputs, (std::vector<ValueId>{a, of_a[0], of_a[1], of_a[2]}));
  EXPECT_EQ(joined.attributes.real("epsilon"), 1e-5);
  EXPECT_EQ(graph.value(of_a[0]).producer, 0);
  EXPECT_EQ(graph.op(7).def->name, "residual_norm") << "in each phase";
}

// Column sums of dy, and products that read it behind them, with the ops of a backward pass in between.
struct Sums {
  Sums() {
    register_engine_ops(registry);
    ops.common().accumulate = Accumulate::kAfterFirstMicroBatch;
    ops.common().phase = Phase::kBackward;
    dy = ops.append("dy", "add", {}, {value("x", {6, 8}), value("x", {6, 8})}).outputs[0];
  }

  ValueId value(const char* name, Shape shape, bool accumulator = false, Placement placement = {}) {
    return graph.add_value({.name = name,
                            .shape = shape,
                            .placement = std::move(placement),
                            .persistent = true,
                            .accumulator = accumulator});
  }
  ValueId sum(const char* name, ValueId of) {
    return ops.append(name, "column_sum", {}, {of}, {value(name, {8}, true)}).outputs[0];
  }
  void weight(const char* name, ValueId of, Placement placement = {}) {
    ops.append(name, "linear_backward_weight", {{"bias", int64_t{0}}}, {value("in", {6, 3}), of},
               {value(name, {8, 3}, true, std::move(placement))});
  }
  // Each op's name, and behind it how many outputs it has.
  std::string joined() {
    join_sums(graph);
    std::string list;
    for (const Op& op : graph.ops()) list += op.name + std::to_string(op.outputs.size()) + " ";
    return list;
  }

  OpRegistry registry;
  Graph graph;
  OpBuilder ops{graph, registry};
  ValueId dy = kNone;
};

TEST(JoinSums, AreMadeByTheProductThatReadsTheSame) {
  Sums g;
  const ValueId sum = g.sum("sum", g.dy);
  g.ops.append("between", "add", {}, {g.dy, g.dy});
  g.weight("weight", g.dy);
  g.weight("second", g.dy);
  EXPECT_EQ(g.joined(), "dy1 between1 weight2 second1 ");
  const Op& weight = g.graph.op(2);
  EXPECT_EQ(weight.outputs.back(), sum);
  EXPECT_EQ(weight.attributes.integer("bias"), 1);
  EXPECT_EQ(g.graph.value(sum).producer, 2);
  const std::vector<OutputSpec> specs = weight.def->infer(OpView{g.graph, weight});
  ASSERT_EQ(specs.size(), 2u);
  EXPECT_EQ(specs[1].shape, g.graph.value(sum).shape);
}

TEST(JoinSums, StayWhereAProductCannotTakeThemOver) {
  Sums g;
  g.weight("before", g.dy);
  const ValueId read = g.sum("read", g.dy);
  g.ops.append("reader", "add", {}, {read, read});
  g.weight("behind", g.dy);
  EXPECT_EQ(g.joined(), "dy1 before1 read1 reader1 behind1 ");

  Sums adding;
  adding.sum("sum", adding.dy);
  adding.ops.common().accumulate = Accumulate::kAlways;
  adding.weight("weight", adding.dy);
  EXPECT_EQ(adding.joined(), "dy1 sum1 weight1 ") << "one adds where the other overwrites";

  Sums divided;  // every tensor rank has all of the bias and a part of the weight
  divided.sum("sum", divided.dy);
  divided.weight("weight", divided.dy, Placement::sharded_over(kTensorAxis));
  EXPECT_EQ(divided.joined(), "dy1 sum1 weight1 ");

  Sums other;
  other.sum("sum", other.value("other", {6, 8}));
  other.weight("weight", other.dy);
  EXPECT_EQ(other.joined(), "dy1 sum1 weight1 ");
}

}  // namespace
}  // namespace recollect::test::graph_edit_test
