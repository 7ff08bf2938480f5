// Where collectives of tensor ranks stand beside products, on lists of a few ops.
#include "checkpointing/collective_pieces.h"

#include <gtest/gtest.h>

#include "checkpointing/recompute.h"
#include "engine/graph/graph_edit.h"
#include "tests/checkpointing/small_graph.h"

namespace recollect::test::collective_pieces_test {
namespace {

// Two tensor ranks.
struct Ranks : SmallGraph {
  const ValueId w = input("w", {6, 6});

  static Attributes tensor() { return {{"axis", std::string(kTensorAxis)}, {"size", int64_t{2}}}; }
  ValueId collective(const char* name, const char* kind, ValueId x) { return op(name, kind, {x}, tensor()); }
  ValueId linear(const char* name, ValueId x) { return op(name, "linear", {x, w}); }
  void weight_gradient(const char* name, ValueId x, ValueId dy) {
    const ValueId sum =
        graph.add_value({.name = std::string("d") + name, .shape = {6, 6}, .accumulator = true});
    ops.append(name, "linear_backward_weight", {{"bias", int64_t{0}}}, {x, dy}, {sum});
  }
  ValueId input_gradient(const char* name, ValueId dy) { return op(name, "linear_backward_input", {dy, w}); }

  std::string cut(int64_t pieces) {
    mark_pieces(graph, pieces);
    overlap_collectives(graph, registry, pieces);
    return text_of(graph);
  }
  const Value& named(const char* name) const { return graph.value(graph.find(name)); }
};

TEST(CollectivePieces, SumWhileTheNextPieceIsMultiplied) {
  Ranks g;
  g.op("end", {g.collective("z", "all_reduce", g.linear("y", g.input("x")))});
  EXPECT_EQ(g.cut(2), R"(
y/0(x w)
z/0(y) on communication
y/1(x w)
z/1(y/1) on communication
z(z/0 z/1)
end(z)
)");
  for (const char* name : {"y", "z/0", "y/1", "z/1"})
    EXPECT_EQ(g.named(name).part_of, g.graph.find("z")) << name;
  EXPECT_EQ(g.named("y/1").part_offset, g.named("z").bytes() / 2);
  EXPECT_EQ(g.named("z/1").part_offset, g.named("z").bytes() / 2);
  for (const Value& value : g.graph.values())
    EXPECT_TRUE(value.persistent || value.producer != kNone) << value.name << " would last for ever";
}

// A piece is as many rows of every rank's part of the sum.
TEST(CollectivePieces, ScatterRowsOfEveryRank) {
  Ranks g;
  g.op("end", {g.collective("z", "reduce_scatter", g.linear("y", g.input("x", {12, 6})))});
  EXPECT_EQ(g.cut(4), R"(
y/0(x w)
z/0(y) on communication
y/1(x w)
z/1(y/1) on communication
y/2(x w)
z/2(y/2) on communication
y/3(x w)
z/3(y/3) on communication
z(z/0 z/1 z/2 z/3)
end(z)
)");
  EXPECT_EQ(g.named("z/3").shape, (Shape{2, 6}));  // of 6 rows 1, 2, 1 and 2
  EXPECT_EQ(g.graph.op(6).attributes.to_string(), "blocks=2 first_row=4 rows=2 stride=6 whole_rows=12");
}

TEST(CollectivePieces, MultiplyWhileTheNextPieceIsHandedRound) {
  Ranks g;
  g.op("end", {g.linear("y", g.collective("g", "all_gather", g.input("x", {2, 6})))});
  EXPECT_EQ(g.cut(2), R"(
g/0(x) on communication
g/1(x) on communication
y/0(g/0 w)
y/1(g/1 w)
g(g/0 g/1)
y(y/0 y/1)
end(y)
)");
}

// The second of two products that read what is gathered has it whole, and is cut as where it is recomputed by itself.
TEST(CollectivePieces, CutEveryProductThatReadsWhatIsGathered) {
  Ranks g;
  const ValueId gathered = g.collective("g", "all_gather", g.input("x", {2, 6}));
  g.op("end", {g.linear("q", gathered), g.linear("k", gathered)});
  EXPECT_EQ(g.cut(2), R"(
g/0(x) on communication
g/1(x) on communication
q/0(g/0 w)
q/1(g/1 w)
g(g/0 g/1)
q(q/0 q/1)
k/0(g w)
k/1(g w)
k(k/0 k/1)
end(q k)
)");
}

TEST(CollectivePieces, LeaveOtherProductsAlone) {
  Ranks g;
  const ValueId y = g.linear("y", g.input("x"));
  g.op("end", {g.collective("z", "all_reduce", y), y});  // y is wanted beside its sum
  EXPECT_EQ(g.cut(2), "\ny(x w)\nz(y)\nend(z y)\n");
}

// What the sum of a gradient runs beside is not cut, and costs no memory: the sum is made in its place.
TEST(CollectivePieces, SumsOfGradientsRunBesideWeights) {
  for (const int64_t pieces : {1, 4}) {
    Ranks g;
    const ValueId x = g.input("x"), dy = g.input("dy");
    g.enter(Phase::kBackward, 0);
    g.op("before", {dy});
    g.weight_gradient("dw", x, dy);
    g.op("end", {g.collective("sum", "all_reduce", g.input_gradient("dx", dy))});
    EXPECT_EQ(g.cut(pieces), R"(
before(dy)
dx(dy w)
sum(dx) on communication
dw(x dy)
end(sum)
)");
    EXPECT_EQ(g.named("dx").part_of, g.graph.find("sum"));
    for (const Op& op : g.graph.ops())
      EXPECT_EQ(op.attributes.has("beside_collectives"), op.name == "dw") << op.name;
  }
}

// A recomputed op keeps the weights' gradient where it was, but not from what it was marked for before: its bits are those
// of a run in which nothing is recomputed.
TEST(CollectivePieces, WeightsAreMarkedWhateverIsRecomputedBehindThem) {
  Ranks g;
  const ValueId x = g.input("x"), dy = g.input("dy");
  g.enter(Phase::kBackward, 0);
  g.weight_gradient("dw", x, dy);
  g.op("end", {g.collective("sum", "all_reduce", g.input_gradient("dx", dy))});
  mark_pieces(g.graph, 1);
  const ValueId again = g.graph.add_value({.name = "again", .shape = {4, 6}});
  Op recomputed = g.graph.op(1);
  recomputed.name = "again", recomputed.role = Role::kRecompute, recomputed.outputs = {again};
  GraphEdit edit(g.graph);
  edit.insert_after(0, std::move(recomputed));
  edit.commit();
  overlap_collectives(g.graph, g.registry, 1);
  EXPECT_EQ(text_of(g.graph), R"(
dw(x dy)
again(dy w)
dx(dy w)
sum(dx)
end(sum)
)");
  EXPECT_TRUE(g.graph.op(0).attributes.has("beside_collectives"));
}

TEST(CollectivePieces, GatheredGradientsAreMultipliedPieceByPiece) {
  Ranks g;
  const ValueId x = g.input("x"), part = g.input("dy_part", {2, 6});
  g.enter(Phase::kBackward, 0);
  const ValueId dy = g.collective("dy", "all_gather", part);
  g.weight_gradient("dw", x, dy);
  g.op("end", {g.input_gradient("dx", dy)});
  EXPECT_EQ(g.cut(2), R"(
dy/0(dy_part) on communication
dy/1(dy_part) on communication
dx/0(dy/0 w)
dx/1(dy/1 w)
dy(dy/0 dy/1)
dx(dx/0 dx/1)
dw(x dy)
end(dx)
)");
}

// What is recomputed is cut as it was, though its input is gathered whole.
TEST(CollectivePieces, RecomputedProductsAreCutAlike) {
  Ranks g;
  g.enter(Phase::kForward, 0);
  const ValueId x = g.input("x", {2, 6}), gathered = g.collective("g", "all_gather", x);
  const ValueId y = g.linear("y", gathered), end = g.op("end", {y});
  g.enter(Phase::kBackward, 0);
  g.weight_gradient("dw", gathered, end);
  g.op("last", {end, y});
  const SavedActivations saved(g.graph);
  mark_pieces(g.graph, 2);
  ASSERT_FALSE(recompute(g.graph, saved, plan_to_save(g.graph, saved, {"x", "end"})).refusal);
  overlap_collectives(g.graph, g.registry, 2);
  const std::string text = text_of(g.graph, Phase::kBackward);
  EXPECT_NE(text.find("gathered/g(x) on gather"), std::string::npos) << text;
  EXPECT_NE(text.find("recompute/y/0(gathered/g w)\nrecompute/y/1(gathered/g w)\n"
                      "recompute/y(recompute/y/0 recompute/y/1)\n"),
            std::string::npos)
      << text;
}

// 64 rows a piece at least; and where the link takes no time there is nothing to hide.
TEST(CollectivePieces, AreChosenByWhatTheySpare) {
  const auto chosen = [](int64_t tokens, double link_bandwidth) {
    Ranks g;
    ValueId x = g.input("x", {tokens, 6});
    for (int i = 0; i < 4; ++i)
      x = g.collective(("z" + std::to_string(i)).c_str(), "all_reduce",
                       g.linear(("y" + std::to_string(i)).c_str(), x));
    const DeviceModel device{.name = "by hand",
                             .gemm_f32 = 1e6,
                             .vector_flops = 1e12,
                             .memory_bandwidth = 1e12,
                             .link_bandwidth = link_bandwidth};
    return choose_pieces(g.graph, g.registry, device);
  };
  EXPECT_EQ(chosen(63, 1e6), kInPlace);
  EXPECT_EQ(chosen(127, 1e6), kInPlace);  // one piece has no backward to run beside
  EXPECT_EQ(chosen(128, 1e6), 2);
  EXPECT_EQ(chosen(4096, 1e6), 8);
  EXPECT_EQ(chosen(4096, 1e15), kInPlace);
}

}  // namespace
}  // namespace recollect::test::collective_pieces_test
