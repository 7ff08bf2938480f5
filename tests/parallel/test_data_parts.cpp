// What data ranks divide: parts of equal size that cover a parameter, sums that reach the rank that has the rows, in
// place or apart and over micro-batches, and padding that stays zero.
#include "parallel/data_parts.h"

#include <gtest/gtest.h>

#include "comm/collective_ops.h"
#include "engine/ops/ops.h"
#include "engine/runtime/executor.h"
#include "parallel/gradient_reduction.h"
#include "parallel/mesh.h"
#include "parallel/parameter_gathers.h"
#include "tests/comm/ranks.h"
#include "tests/engine/expect_error.h"

namespace recollect::test::data_parts_test {
namespace {

TEST(DataParts, AreEqualAndBeginOnCacheLines) {
  EXPECT_EQ(part_rows({768}, 2), 384);
  EXPECT_EQ(part_rows({768}, 5), 160);  // 32 elements of two bytes are a line
  EXPECT_EQ(part_rows({50257, 768}, 2), 25129);
  EXPECT_EQ(part_rows({2, 768}, 3), 1);
  EXPECT_EQ(part_rows({7, 5}, 2), 32);  // rows of 10 bytes
  const Value odd{.name = "odd", .shape = {7, 5}, .dtype = DType::kF32};
  EXPECT_EQ(room_for_parts(odd, 2), 2u * 32 * 5 * 4);
}

// Two parameters, a matrix of 37 x 16 and a vector of 10, whose gradients are twice what is given.
struct Backward {
  explicit Backward(const GradientReduction& reduction) {
    register_engine_ops(registry);
    register_comm_ops(registry);
    for (const Shape& shape : {Shape{37, 16}, Shape{10}}) {
      const std::string name = shape.to_string();
      inputs.push_back(graph.add_value(
          {.name = "input/" + name, .shape = shape, .category = Category::kInput, .persistent = true}));
      Parameter& p = parameters.emplace_back();
      p.name = name;
      p.value = graph.add_value(
          {.name = name, .shape = shape, .category = Category::kParameter, .persistent = true});
      p.gradient = graph.add_value({.name = "grad/" + name,
                                    .shape = shape,
                                    .category = Category::kGradient,
                                    .persistent = true,
                                    .accumulator = true});
      graph.add_op({.def = registry.find("add"),
                    .name = "write/" + name,
                    .inputs = {inputs.back(), inputs.back()},
                    .outputs = {p.gradient},
                    .phase = Phase::kBackward,
                    .accumulate = Accumulate::kNever});
      graph.add_op({.def = registry.find("add"),
                    .name = "read/" + name,
                    .inputs = {p.value, p.value},
                    .phase = Phase::kBackward});
    }
    reduce_gradients(graph, registry, parameters, reduction);
  }

  Graph graph;
  OpRegistry registry;
  std::vector<ValueId> inputs;
  std::vector<Parameter> parameters;
};

TEST(DataParts, LieWhereTheirRanksRowsAre) {
  Backward b({.data_size = 3, .data_rank = 2, .zero_stage = 1});
  const Parameter& p = b.parameters[0];
  const Value &value = b.graph.value(p.value_part), &gradient = b.graph.value(p.gradient_part);
  EXPECT_EQ(p.part_rows, 14);  // of lines of two rows
  EXPECT_EQ(value.name, "[37, 16]/part");
  EXPECT_EQ(value.part_of, p.value);
  EXPECT_EQ(value.part_offset, 2u * 14 * 16 * 4);
  EXPECT_EQ(value.shape, (Shape{14, 16}));
  EXPECT_TRUE(value.placement.is_sharded_over(kDataAxis));
  EXPECT_EQ(gradient.part_of, p.gradient);
  EXPECT_EQ(b.graph.room_of(p.value), aligned(3u * 14 * 16 * 4));
  EXPECT_EQ(b.graph.room_of(p.gradient), b.graph.room_of(p.value));
  const Division d = division_of(b.graph, b.parameters, 3);
  EXPECT_EQ(d.values, 0);  // no state yet, and gradients stay whole
  EXPECT_EQ(d.gathered_bytes, 2u * (14 * 16 + 32) * 4);
}

TEST(DataParts, OfGradientsAreValuesOfTheirOwn) {
  Backward b({.data_size = 2, .zero_stage = 2});
  const Value& part = b.graph.value(b.parameters[0].gradient_part);
  EXPECT_EQ(part.part_of, kNone);
  EXPECT_TRUE(part.persistent);
  EXPECT_FALSE(b.graph.value(b.parameters[0].gradient).persistent);
  EXPECT_EQ(b.graph.ops().back().when, RunWhen::kAlways);
  EXPECT_EQ(division_of(b.graph, b.parameters, 2).values, 2);
}

TEST(DataParts, OneRankDividesNothing) {
  Backward b({.data_size = 1, .zero_stage = 2});
  EXPECT_EQ(b.parameters[0].gradient_part, kNone);
  EXPECT_EQ(b.parameters[0].part_rows, 0);
}

// An input that two micro-batches give, and that ranks give in thirds.
float given(int rank, int micro_batch, std::size_t element) {
  return static_cast<float>(1 + rank + 3 * micro_batch) / static_cast<float>(element + 3);
}

void expect_sums(int stage, int size) {
  SCOPED_TRACE("stage " + std::to_string(stage) + ", ranks " + std::to_string(size));
  expect_fine(run_as_threads(size, [&](Communicator& world) {
    const Mesh mesh(world, training_axes(size, 1));
    Backward b({.data_size = size, .data_rank = world.rank(), .zero_stage = stage});
    KernelTable table;
    reference::register_kernels(table);
    register_comm_kernels(table, [&](std::string_view axis, StreamId stream) -> Communicator& {
      return mesh.communicator(axis, stream);
    });
    const auto device = make_cpu_device();
    Program program = compile(b.graph, table);
    ProgramMemory memory(*device, {&program});
    Executor executor(std::move(program), memory);
    for (int m = 0; m < 2; ++m) {
      for (const ValueId v : b.inputs) {
        std::vector<float> values(static_cast<std::size_t>(b.graph.value(v).shape.elements()));
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = given(world.rank(), m, i);
        executor.write(v, values.data());
      }
      executor.run_micro_batch({.micro_batch = m, .micro_batches = 2});
    }
    EXPECT_EQ(executor.measured(), executor.program().predicted());
    for (const Parameter& p : b.parameters) {
      const Value& whole = b.graph.value(p.value);
      const auto elements = static_cast<std::size_t>(whole.shape.elements());
      std::vector<float> part(static_cast<std::size_t>(b.graph.value(p.gradient_part).shape.elements()));
      executor.read(part.data(), p.gradient_part);
      for (std::size_t i = 0; i < part.size(); ++i) {
        const std::size_t at = static_cast<std::size_t>(world.rank()) * part.size() + i;
        float sum = 0;  // stage 1's graph overwrites: the last micro-batch alone
        for (int m = stage == 2 ? 0 : 1; m < 2; ++m)
          for (int r = 0; r < size; ++r) sum += 2 * given(r, m, at);
        EXPECT_FLOAT_EQ(part[i], at < elements ? sum : 0) << p.name << " " << at;
      }
    }
  }));
}

TEST(DataParts, HoldTheSumsOverRanksAndMicroBatches) {
  for (const int stage : {1, 2})
    for (const int size : {2, 3}) expect_sums(stage, size);
}

// A layer adds its parameter to what comes in, and backward adds it again; those of layer 1 are recomputed before.
struct Layers {
  explicit Layers(int stage, int frozen = -1) {
    register_engine_ops(registry);
    register_comm_ops(registry);
    x = graph.add_value({.name = "x", .shape = {10}, .category = Category::kInput, .persistent = true});
    for (int layer = 0; layer < 4; ++layer) {
      Parameter& p = parameters.emplace_back();
      p.name = "w" + std::to_string(layer);
      for (const auto& [name, category, id] :
           {std::tuple{p.name, Category::kParameter, &p.value},
            std::tuple{"grad/" + p.name, Category::kGradient, &p.gradient}}) {
        if (layer == frozen && category == Category::kGradient) continue;
        *id = graph.add_value({.name = name,
                               .shape = {10},
                               .category = category,
                               .persistent = true,
                               .accumulator = category == Category::kGradient,
                               .layer = layer});
      }
    }
    for (int layer = 0; layer < 4; ++layer) use("f", layer, Phase::kForward);
    use("b", 3, Phase::kBackward);
    use("b", 2, Phase::kBackward);
    use("r", 1, Phase::kBackward);
    use("b", 1, Phase::kBackward);
    use("b", 0, Phase::kBackward);
    for (const Parameter& p : parameters)
      if (p.gradient != kNone)
        graph.add_op({.def = registry.find("add"),
                      .name = "d" + p.name,
                      .inputs = {x, x},
                      .outputs = {p.gradient},
                      .phase = Phase::kBackward});
    reduce_gradients(graph, registry, parameters, {.data_size = 2, .zero_stage = stage});
  }
  void use(const char* name, int layer, Phase phase) {
    const OpId op = graph.add_op({.def = registry.find("add"),
                                  .name = name + std::to_string(layer),
                                  .inputs = {x, parameters[static_cast<std::size_t>(layer)].value},
                                  .layer = layer,
                                  .phase = phase});
    x = graph.op(op).outputs[0];
  }
  std::string order() const {
    std::string text;
    for (const Op& op : graph.ops())
      if (op.name[0] != 'd' && !op.name.starts_with("reduce")) text += op.name + " ";
    return text;
  }

  Graph graph;
  OpRegistry registry;
  ValueId x = kNone;
  std::vector<Parameter> parameters;
};

TEST(ParameterGathers, StandALayerAheadOfEachStay) {
  Layers one(3);
  const GatheredParameters done =
      gather_parameters(one.graph, one.registry, one.parameters, {.data_size = 2, .ahead = 1});
  // Layers 2 and 3 stay until backward has used them: no more than two other visits lie between.
  EXPECT_EQ(one.order(), "gather/0 gather/1 f0 gather/2 f1 gather/3 f2 f3 b3 gather/4 b2 gather/5 r1 b1 b0 ");
  EXPECT_EQ(done.gathers, 6);
  EXPECT_EQ(done.bytes, 6u * 32 * 4);
  const Op& again = one.graph.op(one.graph.value(one.graph.find("w1/again1")).producer);
  EXPECT_EQ(again.name, "gather/4");
  EXPECT_EQ(again.phase, Phase::kBackward);
  EXPECT_EQ(again.stream, StreamId::kCommunication);
  ASSERT_EQ(again.after.size(), 1u);
  EXPECT_EQ(one.graph.value(again.after[0]).name, "b3");
  EXPECT_EQ(again.inputs, std::vector{one.parameters[1].value});
  for (const Op& op : one.graph.ops())
    if (op.name == "r1" || op.name == "b1") {
      EXPECT_EQ(op.inputs[1], one.graph.find("w1/again1"));
    }
  Layers two(3);
  gather_parameters(two.graph, two.registry, two.parameters, {.data_size = 2, .ahead = 2});
  EXPECT_EQ(two.order(), "gather/0 gather/1 gather/2 f0 gather/3 f1 f2 f3 gather/4 b3 gather/5 b2 r1 b1 b0 ");
}

TEST(ParameterGathers, AreOfFrozenParametersToo) {
  Layers three(3, 1);
  const Parameter& frozen = three.parameters[1];
  EXPECT_EQ(three.graph.value(frozen.whole).name, "w1");
  EXPECT_FALSE(three.graph.value(frozen.whole).persistent);
  EXPECT_TRUE(three.graph.value(frozen.value).persistent);
  EXPECT_EQ(frozen.gradient_part, kNone);
  EXPECT_EQ(division_of(three.graph, three.parameters, 2).values, 2 * 3 + 1);
  EXPECT_EQ(gather_parameters(three.graph, three.registry, three.parameters, {.data_size = 2}).gathers, 6);
  Layers two(2, 1);
  EXPECT_EQ(two.parameters[1].part_rows, 0);
  EXPECT_EQ(two.parameters[1].whole, kNone);
}

TEST(ParameterGathers, AreNoneWhereParametersAreWhole) {
  Layers two(2);
  const std::string before = two.order();
  EXPECT_EQ(gather_parameters(two.graph, two.registry, two.parameters, {.data_size = 2}).gathers, 0);
  EXPECT_EQ(two.order(), before);
}

TEST(DataParts, NeedRoom) {
  Backward b({.data_size = 2, .zero_stage = 1});
  Op op = b.graph.ops().back();
  op.attributes.set("size", int64_t{3});
  EXPECT_THROW(b.graph.add_op(op), Error);
}

}  // namespace
}  // namespace recollect::test::data_parts_test
