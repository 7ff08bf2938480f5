// Values that are one buffer: what a group may hold, and that the layout, the prediction and the measurement
// of memory take it as one piece.
#include <gtest/gtest.h>

#include <cstring>

#include "engine/ops/ops.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/memory_profile.h"

namespace recollect {
namespace {

class Groups : public ::testing::Test {
 protected:
  Groups() { register_engine_ops(registry_); }

  ValueId gradient(const std::string& name, int64_t elements) {
    return graph_.add_value({.name = name,
                             .shape = {elements},
                             .category = Category::kGradient,
                             .persistent = true,
                             .accumulator = true});
  }
  ValueId add(const std::string& name, ValueId a, ValueId b, std::vector<ValueId> outputs = {}) {
    return graph_
        .op(graph_.add_op(
            {.def = registry_.find("add"), .name = name, .inputs = {a, b}, .outputs = std::move(outputs)}))
        .outputs[0];
  }
  std::unique_ptr<Executor> run() {
    KernelTable table;
    reference::register_kernels(table, nullptr);
    device_ = make_cpu_device();
    Program program = compile(graph_, table);
    memory_ = std::make_unique<ProgramMemory>(*device_, std::vector<const Program*>{&program});
    auto executor = std::make_unique<Executor>(std::move(program), *memory_);
    executor->run_micro_batch({});
    return executor;
  }
  static std::size_t place_of(const Executor& executor, ValueId v) {
    return executor.memory().arena(MemorySpace::kDevice).offset_of(executor.tensor(v).data);
  }

  Graph graph_;
  OpRegistry registry_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<ProgramMemory> memory_;
};

TEST_F(Groups, HoldValuesOfOneKindOnce) {
  const ValueId a = gradient("a", 3), b = gradient("b", 3);
  const auto refuse = [&](Value other, const std::string& what) {
    const ValueId v = graph_.add_value(std::move(other));
    const ValueId alone = gradient("alone", 3);
    EXPECT_THROW(graph_.add_group({.name = "g", .members = {alone, v}}), Error) << what;
  };
  Value like = graph_.value(a);
  like.dtype = DType::kF64;
  refuse(like, "dtype");
  like = graph_.value(a);
  like.category = Category::kOptimizer;
  refuse(like, "category");
  like = graph_.value(a);
  like.space = MemorySpace::kHost;
  refuse(like, "space");
  EXPECT_THROW(graph_.add_group({.name = "g", .members = {}}), Error);
  EXPECT_THROW(graph_.add_group({.name = "g", .members = {a}, .multiple = 100}), Error);
  EXPECT_EQ(graph_.groups().size(), 0u);
  const GroupId group = graph_.add_group({.name = "g", .members = {b, a}});
  EXPECT_EQ(graph_.value(a).group, group);
  EXPECT_EQ(graph_.place_in_group(a), 1u);
  EXPECT_THROW(graph_.add_group({.name = "h", .members = {a}}), Error);
  EXPECT_EQ(graph_.value(graph_.add_value(graph_.value(a))).group, kNone);  // a copy is a value of its own
}

TEST_F(Groups, ArePiecesOfPersistentMemory) {
  const ValueId x =
      graph_.add_value({.name = "x", .shape = {10}, .category = Category::kInput, .persistent = true});
  const ValueId loose = gradient("loose", 10);
  std::vector<ValueId> members;
  for (const char* name : {"a", "b", "c"}) members.push_back(gradient(name, 10));
  for (const ValueId v : {loose, members[0], members[1], members[2]})
    add("make/" + graph_.value(v).name, x, x, {v});
  const GroupId first =
      graph_.add_group({.name = "first", .members = {members[2], members[0]}, .multiple = 192});
  graph_.add_group({.name = "second", .members = {members[1]}});
  EXPECT_EQ(graph_.group(first).bytes, 192u);
  const auto executor = run();
  const std::size_t begin = place_of(*executor, members[2]);
  EXPECT_EQ(place_of(*executor, members[0]), begin + 64);
  EXPECT_EQ(place_of(*executor, members[1]), begin + 192);
  EXPECT_EQ(place_of(*executor, loose), begin + 256);
  const MemoryLedger& predicted = executor->program().predicted();
  EXPECT_EQ(predicted.persistent_bytes, 64u + 192 + 64 + 64);
  EXPECT_EQ(executor->measured(), predicted);
  const MemoryProfile profile = memory_profile(executor->program());
  EXPECT_EQ(profile.persistent[0][static_cast<int>(Category::kGradient)], 192u + 64 + 64);
  const std::byte* padding = memory_->arena(MemorySpace::kDevice).at(begin);  // zero for ever
  for (const auto& [from, to] : {std::pair{40, 64}, {104, 192}})
    for (int i = from; i < to; ++i) EXPECT_EQ(padding[i], std::byte{0}) << i;
}

// One block, from the first member's beginning to the last one's end.
TEST_F(Groups, ArePiecesOfTransientMemory) {
  const ValueId x =
      graph_.add_value({.name = "x", .shape = {10}, .category = Category::kInput, .persistent = true});
  const ValueId out = gradient("out", 10);
  const ValueId a = add("a", x, x), between = add("between", a, x), b = add("b", between, x),
                c = add("c", b, x);
  add("out", c, b, {out});
  graph_.add_group({.name = "pair", .members = {b, a}, .multiple = 256});
  const auto executor = run();
  EXPECT_EQ(place_of(*executor, a), place_of(*executor, b) + 64);
  const MemoryLedger& predicted = executor->program().predicted();
  EXPECT_EQ(predicted.transient_bytes, 256u + 64);  // `between` has left when `c` comes
  EXPECT_EQ(executor->measured(), predicted);
  float values[10] = {};
  std::vector<float> ones(10, 1.0f);
  executor->write(x, ones.data());
  executor->run_micro_batch({});
  executor->read(values, out);
  for (const float value : values) EXPECT_EQ(value, 9.0f);  // (a + 1 + 1 + 1) + (a + 1 + 1) for a = 2
}

}  // namespace
}  // namespace recollect
