// Gradients as buckets: in the order in which backward completes them, each bucket one group, reduced as soon
// as it is complete; and sums that do not depend on how gradients are divided into buckets.
#include "parallel/gradient_reduction.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "comm/collective_ops.h"
#include "engine/ops/ops.h"
#include "engine/runtime/executor.h"
#include "parallel/mesh.h"
#include "tests/comm/ranks.h"

namespace recollect {
namespace {

using namespace test;

// Three parameters of 10, 100 and 1000 elements, whose gradients backward completes in the order last, first,
// middle: the first one is written twice.
struct Backward {
  Backward() {
    register_engine_ops(registry);
    register_comm_ops(registry);
    for (const int64_t n : {10, 100, 1000}) {
      const std::string size = std::to_string(n);
      inputs.push_back(graph.add_value(
          {.name = "input/" + size, .shape = {n}, .category = Category::kInput, .persistent = true}));
      parameters.push_back({.name = size});
      parameters.back().gradient = graph.add_value({.name = "grad/" + size,
                                                    .shape = {n},
                                                    .category = Category::kGradient,
                                                    .persistent = true,
                                                    .accumulator = true});
    }
    for (const auto& [which, accumulate] : {std::pair{0, Accumulate::kNever},
                                            {2, Accumulate::kNever},
                                            {0, Accumulate::kAlways},
                                            {1, Accumulate::kNever}})
      graph.add_op({.def = registry.find("add"),
                    .name = "write" + std::to_string(graph.ops().size()),
                    .inputs = {inputs[which], inputs[which]},
                    .outputs = {parameters[which].gradient},
                    .phase = Phase::kBackward,
                    .accumulate = accumulate});
  }
  void reduce(const GradientReduction& reduction) {
    reduce_gradients(graph, registry, parameters, reduction);
  }
  std::string order() const {
    std::string text;
    for (const Op& op : graph.ops()) text += op.name + " ";
    return text;
  }
  std::string members(GroupId id) const {
    std::string text;
    for (ValueId v : graph.group(id).members) text += graph.value(v).name + " ";
    return text;
  }

  Graph graph;
  OpRegistry registry;
  std::vector<ValueId> inputs;
  std::vector<Parameter> parameters;
};

TEST(GradientReduction, BucketsLeaveWhenTheyAreComplete) {
  Backward b;
  b.reduce({.data_size = 2, .bucket_bytes = 4010});
  EXPECT_EQ(b.order(), "write0 write1 write2 reduce/bucket0/data write3 reduce/bucket1/data ");
  ASSERT_EQ(b.graph.groups().size(), 2u);
  EXPECT_EQ(b.members(0), "grad/1000 grad/10 ");
  EXPECT_EQ(b.members(1), "grad/100 ");
  const Op& op = b.graph.op(3);
  EXPECT_EQ(op.attributes.integer("group"), 0);
  EXPECT_EQ(op.outputs, b.graph.group(0).members);
  EXPECT_EQ(op.stream, StreamId::kCommunication);
  EXPECT_EQ(op.when, RunWhen::kLastMicroBatch);
}

TEST(GradientReduction, PartialGradientsAreSummedOverTensorRanksFirst) {
  Backward b;
  b.parameters[0].partial_gradient = b.parameters[1].partial_gradient = true;
  b.reduce({.data_size = 2, .tensor_size = 4});
  EXPECT_EQ(b.order(), "write0 write1 write2 write3 reduce/bucket0/tensor reduce/bucket0/data ");
  EXPECT_EQ(b.members(0), "grad/1000 grad/10 grad/100 ");
  EXPECT_EQ(b.graph.op(4).outputs,
            (std::vector<ValueId>{b.parameters[0].gradient, b.parameters[1].gradient}));
  EXPECT_EQ(b.graph.op(4).attributes.integer("size"), 4);
}

// Whoever has nobody to reduce with has the same memory.
TEST(GradientReduction, OneRankHasTheGroupsAlone) {
  Backward b;
  b.reduce({.bucket_bytes = 1});
  EXPECT_EQ(b.order(), "write0 write1 write2 write3 ");
  EXPECT_EQ(b.graph.groups().size(), 3u);
  EXPECT_EQ(b.members(0), "grad/1000 ");
}

TEST(GradientReduction, ABucketHasOneDtype) {
  Backward b;
  b.graph.value(b.parameters[0].gradient).dtype = DType::kF64;
  b.reduce({.data_size = 2});
  ASSERT_EQ(b.graph.groups().size(), 3u);
  EXPECT_EQ(b.members(1), "grad/10 ");
}

using Sums = std::vector<std::vector<float>>;  // by parameter

// Of rank 1 of 2 x 2, with numbers whose sums depend on the order.
Sums train(uint64_t bucket_bytes) {
  Sums sums;
  expect_fine(run_as_threads(4, [&](Communicator& world) {
    const Mesh mesh(world, training_axes(2, 2));
    Backward b;
    b.parameters[1].partial_gradient = b.parameters[2].partial_gradient = true;
    b.reduce({.data_size = 2, .tensor_size = 2, .bucket_bytes = bucket_bytes});
    KernelTable table;
    reference::register_kernels(table);
    register_comm_kernels(table, [&](std::string_view axis, StreamId stream) -> Communicator& {
      return mesh.communicator(axis, stream);
    });
    const auto device = make_cpu_device();
    Program program = compile(b.graph, table);
    ProgramMemory memory(*device, {&program});
    Executor executor(std::move(program), memory);
    for (const ValueId v : b.inputs) {
      std::vector<float> values(static_cast<std::size_t>(b.graph.value(v).shape.elements()));
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(1 + world.rank()) / static_cast<float>(i + 3);
      executor.write(v, values.data());
    }
    executor.run_micro_batch({});
    EXPECT_EQ(executor.measured(), executor.program().predicted());
    if (world.rank() != 1) return;
    for (const Parameter& p : b.parameters) {
      std::vector<float>& sum =
          sums.emplace_back(static_cast<std::size_t>(b.graph.value(p.gradient).shape.elements()));
      executor.read(sum.data(), p.gradient);
    }
    for (const Group& group : b.graph.groups())  // zero for ever
      for (std::size_t i = 0; i < group.members.size(); ++i) {
        const Tensor member = executor.tensor(group.members[i]);
        const std::byte* end = static_cast<const std::byte*>(member.data) + member.bytes();
        for (std::size_t byte = member.bytes(); byte < aligned(member.bytes()); ++byte)
          EXPECT_EQ(*end++, std::byte{0}) << group.name;
      }
  }));
  return sums;
}

TEST(GradientReduction, SumsDoNotDependOnTheBuckets) {
  const Sums one = train(uint64_t{1} << 20);
  ASSERT_EQ(one.size(), 3u);
  // Twice its input; the whole over data ranks 0 and 1, that is ranks 1 and 3; partial ones over all four.
  EXPECT_FLOAT_EQ(one[0][1], 2 * (2.0f + 4) / 4);
  EXPECT_FLOAT_EQ(one[1][1], 2 * (1.0f + 2 + 3 + 4) / 4);
  EXPECT_EQ(train(1), one);
  EXPECT_EQ(train(4010), one);
}

}  // namespace
}  // namespace recollect
