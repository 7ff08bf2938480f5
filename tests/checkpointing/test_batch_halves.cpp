// How the halves of a batch take turns, on lists of a few ops.
#include "checkpointing/batch_halves.h"

#include <gtest/gtest.h>

#include "engine/graph/placement.h"
#include "tests/checkpointing/small_graph.h"

namespace recollect::test::batch_halves_test {
namespace {

constexpr int64_t kSamples = 2;  // of a half

// Two tensor ranks; what is multiplied by `w` depends on the batch, `codes` on the weights alone.
struct Ranks : SmallGraph {
  const ValueId x = input("x"), w = input("w", {6, 6});

  ValueId sum(const char* name, ValueId of) {
    return op(name, "all_reduce", {of}, {{"axis", std::string(kTensorAxis)}, {"size", int64_t{2}}});
  }
  ValueId linear(const char* name, ValueId of, ValueId by) { return op(name, "linear", {of, by}); }
  const Value& named(const char* name) const { return graph.value(graph.find(name)); }
  const Op& op_named(std::string_view name) const {
    return *std::find_if(graph.ops().begin(), graph.ops().end(),
                         [&](const Op& op) { return op.name == name; });
  }
};

TEST(BatchHalves, ComputeBesideEachOthersCollectives) {
  Ranks g;
  g.enter(Phase::kForward, 0);
  const ValueId codes = g.op("codes", {g.w});
  const ValueId z = g.sum("z", g.linear("y", g.op("norm", {g.x}), codes));
  const ValueId logits = g.op("logits", {z});
  g.enter(Phase::kBackward, 0);
  g.op("end", {g.op("dlogits", {logits})});
  const auto both = add_second_half(g.graph, g.registry, {g.x}, logits, kSamples);
  EXPECT_EQ(text_of(g.graph), R"(
codes(w)
norm(x/first)
y(norm codes)
z(y) on communication
norm/second(x/second)
y/second(norm/second codes)
z/second(y/second) on communication
logits(z)
logits/second(z/second)
logits/whole(logits logits/second)
dlogits(logits)
end(dlogits)
dlogits/second(logits/second)
end/second(dlogits/second)
)");
  EXPECT_EQ(g.graph.value(both.at(g.x)).name, "x");
  EXPECT_EQ(g.named("x").shape, (Shape{8, 6}));
  EXPECT_EQ(g.graph.value(both.at(logits)).name, "logits/whole");
  for (const char* whole : {"x", "logits/whole"}) {
    const char* parts[] = {whole[0] == 'x' ? "x/first" : "logits",
                           whole[0] == 'x' ? "x/second" : "logits/second"};
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(g.named(parts[i]).part_of, g.graph.find(whole)) << parts[i];
      EXPECT_EQ(g.named(parts[i]).part_offset, static_cast<uint64_t>(i) * g.named(parts[i]).bytes())
          << parts[i];
    }
  }
  EXPECT_EQ(g.op_named("norm").first_sample, 0);
  EXPECT_EQ(g.op_named("norm/second").first_sample, kSamples);
  // Each sum is in the memory of what it sums.
  EXPECT_EQ(g.named("y").part_of, g.graph.find("z"));
  EXPECT_EQ(g.named("y/second").part_of, g.graph.find("z/second"));
}

TEST(BatchHalves, AddToTheSameGradients) {
  Ranks g;
  g.enter(Phase::kBackward, 0);
  const ValueId dw =
      g.graph.add_value({.name = "dw", .shape = {6, 6}, .persistent = true, .accumulator = true});
  g.ops.common().accumulate = Accumulate::kAfterFirstMicroBatch;
  g.ops.append("weights", "linear_backward_weight", {{"bias", int64_t{0}}}, {g.x, g.x}, {dw});
  add_second_half(g.graph, g.registry, {g.x}, kNone, kSamples);
  ASSERT_EQ(g.graph.ops().size(), 2u);
  EXPECT_EQ(g.graph.op(0).accumulate, Accumulate::kAfterFirstMicroBatch);
  EXPECT_EQ(g.graph.op(1).accumulate, Accumulate::kAlways);
  for (const OpId id : g.graph.op_ids()) EXPECT_EQ(g.graph.op(id).outputs.front(), dw);
}

TEST(BatchHalves, WaitForValuesOfTheirOwn) {
  Ranks g;
  g.enter(Phase::kForward, 0);
  const ValueId a = g.op("a", {g.x});
  g.op("b", {a});
  g.graph.op(1).after = {a};
  add_second_half(g.graph, g.registry, {g.x}, kNone, kSamples);
  EXPECT_EQ(text_of(g.graph), R"(
a(x/first)
b(a) after a
a/second(x/second)
b/second(a/second) after a/second
)");
}

}  // namespace
}  // namespace recollect::test::batch_halves_test
