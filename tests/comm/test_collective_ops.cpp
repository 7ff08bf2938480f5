// The op kinds of comm: shapes, costs, gradients, and kernels over rank threads.
#include "comm/collective_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "comm/vocabulary_reduction.h"
#include "engine/graph/differentiate.h"
#include "engine/ops/ops.h"
#include "tests/comm/ranks.h"

namespace recollect {
namespace {

using namespace test;

class Ops : public ::testing::Test {
 protected:
  Ops() {
    register_engine_ops(registry_);
    register_comm_ops(registry_);
  }

  ValueId external(const std::string& name, Shape shape, DType dtype = DType::kF32,
                   bool accumulator = false) {
    return graph_.add_value({.name = name, .shape = shape, .dtype = dtype, .accumulator = accumulator});
  }
  OpId add(const std::string& kind, std::vector<ValueId> inputs, int64_t size,
           std::vector<ValueId> outputs = {}, const std::string& axis = "tensor") {
    return graph_.add_op({.def = registry_.find(kind),
                          .name = "the/" + kind,
                          .attributes = {{"axis", axis}, {"size", size}},
                          .inputs = std::move(inputs),
                          .outputs = std::move(outputs)});
  }
  // Of members of a group, in place.
  OpId add_sum(GroupId group, std::vector<ValueId> values, int64_t size) {
    return graph_.add_op(
        {.def = registry_.find("all_reduce_accumulators"),
         .name = "the/sum",
         .attributes = {{"axis", std::string("tensor")}, {"size", size}, {"group", int64_t{group}}},
         .inputs = values,
         .outputs = values});
  }
  const Value& result(OpId id) { return graph_.value(graph_.op(id).outputs[0]); }
  Cost cost(OpId id) { return graph_.op(id).def->cost(OpView{graph_, graph_.op(id)}); }
  std::string kind_of_producer(ValueId value) { return graph_.op(graph_.value(value).producer).def->name; }

  Graph graph_;
  OpRegistry registry_;
};

TEST_F(Ops, InferShapes) {
  const ValueId x = external("x", {12, 5}, DType::kBF16);
  EXPECT_EQ(result(add("all_reduce", {x}, 4)).shape, (Shape{12, 5}));
  EXPECT_EQ(result(add("copy_to_ranks", {x}, 4)).shape, (Shape{12, 5}));
  EXPECT_EQ(result(add("all_gather", {x}, 4)).shape, (Shape{48, 5}));
  const Value scattered = result(add("reduce_scatter", {x}, 4));
  EXPECT_EQ(scattered.shape, (Shape{3, 5}));
  EXPECT_EQ(scattered.dtype, DType::kBF16);
  EXPECT_EQ(scattered.placement, Placement::sharded_over("tensor"));
  EXPECT_EQ(result(add("all_gather", {graph_.find("the/reduce_scatter")}, 4)).placement, Placement());
  const Value own = result(add("take_own_part", {x}, 4));
  EXPECT_EQ(own.shape, (Shape{3, 5}));
  EXPECT_EQ(own.placement, Placement::sharded_over("tensor"));
  const Value gathered = result(add("gather_from_ranks", {graph_.find("the/take_own_part")}, 4));
  EXPECT_EQ(gathered.shape, (Shape{12, 5}));
  EXPECT_EQ(gathered.dtype, DType::kBF16);
  EXPECT_EQ(gathered.placement, Placement());
}

// Each collective says something of its own axis alone.
TEST_F(Ops, InferPlacementsOfTheirAxis) {
  const ValueId x = external("x", {12, 5});
  const Placement tensor = Placement::sharded_over("tensor"), both = tensor.and_over("data");
  EXPECT_EQ(both, Placement::sharded_over("data").and_over("tensor").and_over("data"));
  EXPECT_EQ(both.axes(), (std::vector<std::string>{"data", "tensor"}));
  const auto after = [&](const std::string& kind, const std::string& axis) {
    return result(add(kind, {x}, 2, {}, axis)).placement;
  };
  graph_.value(x).placement = tensor;
  EXPECT_EQ(after("reduce_scatter", "data"), both);
  EXPECT_EQ(after("all_reduce", "data"), tensor);
  EXPECT_EQ(after("copy_to_ranks", "tensor"), tensor);
  graph_.value(x).placement = both;
  EXPECT_EQ(after("all_gather", "data"), tensor);
  EXPECT_EQ(after("all_reduce", "tensor"), Placement::sharded_over("data"));
  EXPECT_EQ(after("all_gather", "context"), both);
}

TEST_F(Ops, RefuseWhatCannotBe) {
  const ValueId x = external("x", {12, 5}), sum = external("sum", {4}, DType::kF32, true);
  EXPECT_THROW(add("reduce_scatter", {x}, 5), Error);
  EXPECT_THROW(add("take_own_part", {x}, 5), Error);
  EXPECT_THROW(add("all_reduce", {x}, 4, {}, ""), Error);
  EXPECT_THROW(add("all_reduce", {x}, 0), Error);
  const GroupId inputs = graph_.add_group({.name = "inputs", .members = {x}});
  EXPECT_THROW(add_sum(inputs, {x}, 2), Error);
  const ValueId one = external("one", {4}, DType::kF32, true),
                other = external("other", {4}, DType::kF32, true);
  const GroupId sums = graph_.add_group({.name = "sums", .members = {sum, one}});
  EXPECT_THROW(add_sum(sums, {}, 2), Error);
  EXPECT_THROW(add_sum(sums, {one, sum}, 2), Error);                     // not in the group's order
  EXPECT_THROW(add_sum(sums, {sum, other}, 2), Error);                   // not a member
  EXPECT_THROW(add("all_reduce_accumulators", {sum}, 2, {sum}), Error);  // of which group?
  add_sum(sums, {one}, 2);
}

TEST_F(Ops, CostsOfTheLink) {
  const ValueId x = external("x", {12, 5}), sum = external("sum", {100}, DType::kF32, true);
  EXPECT_DOUBLE_EQ(cost(add("all_reduce", {x}, 4)).link_bytes, 2.0 * 3 / 4 * 240);
  EXPECT_DOUBLE_EQ(cost(add("all_gather", {x}, 4)).link_bytes, 3.0 / 4 * 960);
  EXPECT_DOUBLE_EQ(cost(add("reduce_scatter", {x}, 4)).link_bytes, 3.0 / 4 * 240);
  EXPECT_DOUBLE_EQ(cost(add("gather_from_ranks", {x}, 4)).link_bytes, 3.0 / 4 * 960);
  EXPECT_DOUBLE_EQ(cost(add("copy_to_ranks", {x}, 4)).link_bytes, 0);
  EXPECT_DOUBLE_EQ(cost(add("take_own_part", {x}, 4)).link_bytes, 0);
  EXPECT_DOUBLE_EQ(cost(add("take_own_part", {x}, 4)).bytes, 2 * 60);
  const GroupId group = graph_.add_group({.name = "sums", .members = {sum}});
  EXPECT_DOUBLE_EQ(cost(add_sum(group, {sum}, 2)).link_bytes, 400);
  EXPECT_DOUBLE_EQ(cost(add("all_reduce", {x}, 1)).link_bytes, 0);
}

TEST_F(Ops, GradientsAreMegatrons) {
  const std::vector<std::array<std::string, 2>> pairs = {{"copy_to_ranks", "all_reduce"},
                                                         {"all_gather", "reduce_scatter"},
                                                         {"reduce_scatter", "all_gather"},
                                                         {"gather_from_ranks", "take_own_part"},
                                                         {"take_own_part", "gather_from_ranks"}};
  for (const auto& [forward, backward] : pairs) {
    Graph fresh;
    std::swap(graph_, fresh);
    const ValueId x = external("x", {12, 5});
    const ValueId y = graph_.op(add(forward, {x}, 4)).outputs[0];
    const ValueId dy = external("dy", graph_.value(y).shape);
    const Gradients gradients = differentiate(graph_, registry_, {x}, {{y, dy}});
    ASSERT_TRUE(gradients.contains(x)) << forward;
    EXPECT_EQ(kind_of_producer(gradients.at(x)), backward);
    EXPECT_EQ(graph_.value(gradients.at(x)).shape, (Shape{12, 5}));
    EXPECT_EQ(graph_.op(graph_.value(gradients.at(x)).producer).attributes.integer("size"), 4);
  }
  const ValueId x = external("x2", {12, 5});
  const ValueId y = graph_.op(add("all_reduce", {x}, 4)).outputs[0];
  const ValueId dy = external("dy2", {12, 5});
  EXPECT_EQ(differentiate(graph_, registry_, {x}, {{y, dy}}).at(x), dy);
}

TEST_F(Ops, NoGradientFlowsThroughAMaximum) {
  const ValueId x = external("x", {3});
  const OpId id = graph_.add_op(
      {.def = registry_.find("all_reduce"),
       .name = "max",
       .attributes = {{"axis", std::string("tensor")}, {"size", int64_t{2}}, {"op", std::string("max")}},
       .inputs = {x}});
  const ValueId dy = external("dy", {3});
  EXPECT_THROW(differentiate(graph_, registry_, {x}, {{graph_.op(id).outputs[0], dy}}), Error);
}

// Runs one op's kernel on this rank's tensors.
void run_op(const Graph& graph, OpId id, Communicator& c, std::vector<Tensor> in, std::vector<Tensor> out) {
  KernelTable table;
  register_comm_kernels(table, [&](std::string_view axis, StreamId stream) -> Communicator& {
    EXPECT_EQ(axis, "tensor");
    EXPECT_EQ(stream, StreamId::kCompute);
    return c;
  });
  table.make(OpView{graph, graph.op(id)})->run({.in = in, .out = out});
}

TEST_F(Ops, KernelsOverThreeRanks) {
  const ValueId x = external("x", {3, 2});
  const OpId reduce = add("all_reduce", {x}, 3), copy = add("copy_to_ranks", {x}, 3);
  const OpId gather = add("all_gather", {x}, 3), scatter = add("reduce_scatter", {x}, 3);
  const OpId same_gather = add("gather_from_ranks", {x}, 3), own = add("take_own_part", {x}, 3);
  const OpId max = graph_.add_op(
      {.def = registry_.find("all_reduce"),
       .name = "max",
       .attributes = {{"axis", std::string("tensor")}, {"size", int64_t{3}}, {"op", std::string("max")}},
       .inputs = {x}});
  expect_fine(run_as_threads(3, [&](Communicator& c) {
    std::vector<float> in(6), out(6), all(18), part(2);
    for (int i = 0; i < 6; ++i) in[i] = static_cast<float>(10 * c.rank() + i);
    const Tensor tin{in.data(), {3, 2}, DType::kF32}, tout{out.data(), {3, 2}, DType::kF32};
    run_op(graph_, reduce, c, {tin}, {tout});
    for (int i = 0; i < 6; ++i) EXPECT_EQ(out[i], 30.0f + 3.0f * i);
    run_op(graph_, max, c, {tin}, {tout});
    for (int i = 0; i < 6; ++i) EXPECT_EQ(out[i], 20.0f + i);
    run_op(graph_, copy, c, {tin}, {tout});
    EXPECT_EQ(out, in);
    run_op(graph_, gather, c, {tin}, {{all.data(), {9, 2}, DType::kF32}});
    for (int i = 0; i < 18; ++i) EXPECT_EQ(all[i], 10.0f * (i / 6) + i % 6);
    std::fill(all.begin(), all.end(), -1.0f);
    run_op(graph_, same_gather, c, {tin}, {{all.data(), {9, 2}, DType::kF32}});
    for (int i = 0; i < 18; ++i) EXPECT_EQ(all[i], 10.0f * (i / 6) + i % 6);
    run_op(graph_, own, c, {tin}, {{part.data(), {1, 2}, DType::kF32}});
    for (int i = 0; i < 2; ++i) EXPECT_EQ(part[i], in[2 * c.rank() + i]);
    run_op(graph_, scatter, c, {tin}, {{part.data(), {1, 2}, DType::kF32}});
    for (int i = 0; i < 2; ++i) EXPECT_EQ(part[i], 30.0f + 3.0f * (2 * c.rank() + i));
    run_op(graph_, reduce, c, {tin}, {tin});
    for (int i = 0; i < 6; ++i) EXPECT_EQ(in[i], 30.0f + 3.0f * i);
  }));
}

// Of three ranks' parts of four rows any that stand together: from one rank, from two, from all.
TEST_F(Ops, RowsOfRanksAreHandedRound) {
  for (const auto& [first, rows] :
       {std::pair<int64_t, int64_t>{0, 4}, {5, 2}, {2, 4}, {3, 8}, {0, 12}, {11, 1}}) {
    const ValueId y = external("y", {rows, 2});
    const OpId id = graph_.add_op(
        {.def = registry_.find("broadcast_rows"),
         .name = "the/rows",
         .attributes = {{"axis", std::string("tensor")}, {"size", int64_t{3}}, {"first_row", first}},
         .inputs = {external("x", {4, 2})},
         .outputs = {y}});
    EXPECT_DOUBLE_EQ(cost(id).link_bytes, static_cast<double>(rows * 2) * sizeof(float));
    EXPECT_DOUBLE_EQ(cost(id).exchanges, static_cast<double>((first + rows - 1) / 4 - first / 4));
    expect_fine(run_as_threads(3, [&, first = first, rows = rows](Communicator& c) {
      std::array<float, 8> in;
      std::vector<float> out(static_cast<std::size_t>(rows) * 2, -1.0f);
      for (int i = 0; i < 8; ++i) in[i] = static_cast<float>(8 * c.rank() + i);
      run_op(graph_, id, c, {{in.data(), {4, 2}, DType::kF32}}, {{out.data(), {rows, 2}, DType::kF32}});
      for (std::size_t i = 0; i < out.size(); ++i)
        EXPECT_EQ(out[i], static_cast<float>(2 * first) + static_cast<float>(i));
    }));
  }
  EXPECT_THROW(
      graph_.add_op(
          {.def = registry_.find("broadcast_rows"),
           .name = "the/rows",
           .attributes = {{"axis", std::string("tensor")}, {"size", int64_t{3}}, {"first_row", int64_t{9}}},
           .inputs = {external("x", {4, 2})},
           .outputs = {external("y", {4, 2})}}),
      Error);
}

// Parts are all of what they are parts of, in their order.
TEST_F(Ops, PartsAreJoinedWhereTheyLie) {
  const ValueId whole = external("whole", {4, 5});
  const auto part = [&](int64_t first, int64_t rows) {
    return graph_.add_value({.name = "part",
                             .shape = {rows, 5},
                             .part_of = whole,
                             .part_offset = static_cast<uint64_t>(first) * 5 * sizeof(float)});
  };
  const auto join = [&](std::vector<ValueId> parts) {
    return graph_.add_op({.def = registry_.find("joined_rows"),
                          .name = "the/whole",
                          .inputs = std::move(parts),
                          .outputs = {whole}});
  };
  EXPECT_THROW(join({part(0, 3)}), Error);
  EXPECT_THROW(join({part(2, 2), part(0, 2)}), Error);
  EXPECT_THROW(join({external("other", {4, 5})}), Error);
  EXPECT_EQ(result(join({part(0, 3), part(3, 1)})).shape, (Shape{4, 5}));
}

TEST_F(Ops, AKernelForAnotherNumberOfRanksIsNotMade) {
  const OpId id = add("all_reduce", {external("x", {3})}, 2);
  const auto self = make_self_communicator();
  float value[3] = {};
  const Tensor tensor{value, {3}, DType::kF32};
  EXPECT_THROW(run_op(graph_, id, *self, {tensor}, {tensor}), Error);
}

// Counts the calls that reach another communicator.
class Counting final : public Communicator {
 public:
  explicit Counting(Communicator& inner) : inner_(inner) {}
  int calls = 0;

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string name() const override { return inner_.name(); }
  void all_reduce(const Tensor& tensor, ReduceOp op, void* stream) override {
    ++calls;
    inner_.all_reduce(tensor, op, stream);
  }
  void all_gather(const Tensor& in, const Tensor& out, void* stream) override {
    inner_.all_gather(in, out, stream);
  }
  void reduce_scatter(const Tensor& in, const Tensor& out, void* stream) override {
    inner_.reduce_scatter(in, out, stream);
  }
  void broadcast(const Tensor& tensor, int root, void* stream) override {
    inner_.broadcast(tensor, root, stream);
  }
  void barrier() override { inner_.barrier(); }
  void pass(const Parcel& out, const Parcel& in, void* stream) override { inner_.pass(out, in, stream); }
  std::unique_ptr<Communicator> split(int color) override { return inner_.split(color); }
  void abort(const std::string& why) noexcept override { inner_.abort(why); }

 private:
  Communicator& inner_;
};

// Of a group of 10, 20, 5 and 30 elements: which of its members an op sums, and in how many calls.
TEST_F(Ops, MembersOfAGroupThatStandSideBySideAreOneBuffer) {
  const std::vector<std::pair<std::vector<std::size_t>, int>> sums = {
      {{0, 1, 2, 3}, 1}, {{1, 2}, 1}, {{2}, 1}, {{0, 2, 3}, 2}, {{0, 2}, 2}, {{0, 1, 3}, 2}};
  std::vector<ValueId> values;
  for (const int64_t n : {10, 20, 5, 30})
    values.push_back(external("sum" + std::to_string(n), {n}, DType::kF32, true));
  const GroupId group = graph_.add_group({.name = "sums", .members = values, .multiple = 256});
  const std::vector<uint64_t>& offsets = graph_.group(group).offsets;
  EXPECT_EQ(offsets, (std::vector<uint64_t>{0, 64, 192, 256}));
  EXPECT_EQ(graph_.group(group).bytes, 512u);
  for (const auto& [members, calls] : sums) {
    std::vector<ValueId> summed;
    for (const std::size_t i : members) summed.push_back(values[i]);
    const OpId id = add_sum(group, summed, 2);
    expect_fine(run_as_threads(2, [&](Communicator& c) {
      alignas(64) std::array<float, 128> memory;
      memory.fill(static_cast<float>(c.rank() + 1));
      const auto tensor = [&](std::size_t i) {
        return Tensor{memory.data() + offsets[i] / sizeof(float), graph_.value(values[i]).shape, DType::kF32};
      };
      std::vector<Tensor> tensors;
      for (const std::size_t i : members) tensors.push_back(tensor(i));
      Counting counting(c);
      run_op(graph_, id, counting, tensors, tensors);
      EXPECT_EQ(counting.calls, calls);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const bool is_summed = std::find(members.begin(), members.end(), i) != members.end();
        const std::vector<float> expected(static_cast<std::size_t>(tensor(i).elements()),
                                          is_summed ? 3.0f : static_cast<float>(c.rank() + 1));
        EXPECT_EQ(std::vector<float>(tensor(i).as<float>(), tensor(i).as<float>() + tensor(i).elements()),
                  expected);
      }
      EXPECT_EQ(memory.back(), static_cast<float>(c.rank() + 1));  // what follows the last member
    }));
  }
}

TEST_F(Ops, MembersThatDoNotLieAsTheGroupSaysAreAnError) {
  const std::vector<ValueId> values = {external("a", {10}, DType::kF32, true),
                                       external("b", {10}, DType::kF32, true)};
  const OpId id = add_sum(graph_.add_group({.name = "sums", .members = values}), values, 1);
  alignas(64) std::array<float, 64> memory{};
  const std::vector<Tensor> tensors = {{memory.data(), {10}, DType::kF32},
                                       {memory.data() + 32, {10}, DType::kF32}};
  const auto self = make_self_communicator();
  EXPECT_THROW(run_op(graph_, id, *self, tensors, tensors), Error);
}

TEST(VocabularyReductionOverRanks, ReducesEveryPart) {
  expect_fine(run_as_threads(3, [](Communicator& c) {
    CommunicatorVocabularyReduction reduction(c);
    std::vector<double> sums(5, c.rank() + 1.0), maxima(5, -c.rank());
    std::vector<float> float_sums(5, c.rank() + 1.0f), float_maxima(5, c.rank() - 7.0f);
    reduction.sum(sums.data(), 5);
    reduction.max(maxima.data(), 5);
    reduction.sum(float_sums.data(), 5);
    reduction.max(float_maxima.data(), 5);
    EXPECT_EQ(sums, std::vector<double>(5, 6.0));
    EXPECT_EQ(maxima, std::vector<double>(5, 0.0));
    EXPECT_EQ(float_sums, std::vector<float>(5, 6.0f));
    EXPECT_EQ(float_maxima, std::vector<float>(5, -5.0f));
  }));
}

}  // namespace
}  // namespace recollect
