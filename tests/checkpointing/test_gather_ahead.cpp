// When gathers begin, on lists of a few ops.
#include <gtest/gtest.h>

#include "checkpointing/gather_ahead.h"
#include "tests/checkpointing/small_graph.h"

namespace recollect::test::gather_ahead_test {
namespace {

// Parts p and q of forward, and a backward that reads both whole: each gather stands before its reader, as
// recomputation leaves it.
struct TwoGathers : SmallGraph {
  TwoGathers() {
    const ValueId x = input("x"), p = op("p", {x}), q = op("q", {p});
    op("end", {q});
    enter(Phase::kBackward, 0);
    const ValueId a = op("a", {x}), b = op("b", {a}), whole_p = gather("whole_p", p);
    const ValueId c = op("c", {b, whole_p}), d = op("d", {c}), whole_q = gather("whole_q", q);
    op("f", {d, whole_q});
  }

  ValueId gather(const char* name, ValueId part) {
    ops.common().stream = StreamId::kGather;
    const ValueId whole =
        op(name, "all_gather", {part}, {{"axis", std::string("tensor")}, {"size", int64_t{1}}});
    ops.common().stream = StreamId::kCompute;
    return whole;
  }
};

// The first begins when forward ends, the second when the first has been used.
TEST(GatherAhead, BeginsWhenTheOneBeforeHasBeenUsed) {
  TwoGathers g;
  gather_ahead(g.graph);
  EXPECT_EQ(text_of(g.graph), R"(
p(x)
q(p)
end(q)
whole_p(p) on gather after end
a(x)
b(a)
c(b whole_p)
whole_q(q) on gather after c
d(c)
f(d whole_q)
)");
}

TEST(GatherAhead, LeavesAGraphWithoutGathersAlone) {
  LayeredGraph g(2);
  const std::string before = text_of(g.graph);
  gather_ahead(g.graph);
  EXPECT_EQ(text_of(g.graph), before);
}

// A part that one op makes again of what is there is made early too; other ops of backward stay.
TEST(GatherAhead, TakesTheRecomputationOfItsPartAlong) {
  SmallGraph g;
  const ValueId x = g.input("x"), end = g.op("end", {x});
  g.enter(Phase::kBackward, 0);
  const ValueId a = g.op("a", {end});
  g.ops.common().role = Role::kRecompute;
  const ValueId part = g.op("recompute/part", {x});
  g.ops.common() = {.phase = Phase::kBackward, .role = Role::kGather, .stream = StreamId::kGather};
  const ValueId whole =
      g.op("gathered/whole", "all_gather", {part}, {{"axis", std::string("tensor")}, {"size", int64_t{1}}});
  g.ops.common() = {.phase = Phase::kBackward};
  g.op("b", {a, whole});
  gather_ahead(g.graph);
  EXPECT_EQ(text_of(g.graph), R"(
end(x)
recompute/part(x)
gathered/whole(recompute/part) on gather after end
a(end)
b(a gathered/whole)
)");
}

TEST(GatherAhead, WaitsForAPartThatBackwardMakes) {
  SmallGraph g;
  const ValueId end = g.op("end", {g.input("x")});
  g.enter(Phase::kBackward, 0);
  const ValueId a = g.op("a", {end}), part = g.op("part", {a}), b = g.op("b", {part});
  g.ops.common().stream = StreamId::kGather;
  const ValueId whole =
      g.op("whole", "all_gather", {part}, {{"axis", std::string("tensor")}, {"size", int64_t{1}}});
  g.ops.common().stream = StreamId::kCompute;
  g.op("c", {b, whole});
  gather_ahead(g.graph);
  EXPECT_EQ(text_of(g.graph, Phase::kBackward), R"(
a(end)
part(a)
whole(part) on gather after part
b(part)
c(b whole)
)");
}

}  // namespace
}  // namespace recollect::test::gather_ahead_test
