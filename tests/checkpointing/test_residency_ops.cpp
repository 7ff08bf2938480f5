// The ops that move saved activations: what they make, and that they change no bit that they should not.
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "checkpointing/residency_ops.h"
#include "comm/local.h"
#include "tests/checkpointing/run_op.h"
#include "tests/checkpointing/small_graph.h"
#include "tests/engine/op_table.h"

namespace recollect::test::residency_ops_test {
namespace {

TEST(ResidencyOps, SayWhereAndHowLargeTheirOutputsAre) {
  SmallGraph g;
  const ValueId x = g.input("x", {5, 7});
  const auto value = [&](ValueId v) -> const Value& { return g.graph.value(v); };
  const ValueId part = g.op("part", "checkpoint_slice", {x}, {{"size", int64_t{4}}});
  EXPECT_EQ(value(part).shape, Shape{9}) << "35 elements in four parts";
  EXPECT_EQ(value(part).placement, Placement::sharded_over(kTensorAxis));
  const ValueId whole = g.op("whole", "checkpoint_gather", {part}, gather_attributes(value(x), 4));
  EXPECT_EQ(value(whole).shape, value(x).shape);
  EXPECT_EQ(value(whole).placement, Placement());
  const ValueId host = g.op("host", "copy_to_host", {x});
  EXPECT_EQ(value(host).space, MemorySpace::kHost);
  EXPECT_EQ(value(g.op("device", "copy_to_device", {host})).space, MemorySpace::kDevice);
  const ValueId disk = g.op("disk", "write_to_disk", {host});
  EXPECT_EQ(value(disk).space, MemorySpace::kDisk);
  const ValueId read = g.op("read", "read_from_disk", {disk}, {{"to", std::string("host")}});
  EXPECT_EQ(value(read).space, MemorySpace::kHost);
  const ValueId packed = g.op("packed", "checkpoint_pack", {x});
  EXPECT_EQ(value(packed).dtype, DType::kBF16);
  const ValueId again = g.op("again", "checkpoint_unpack", {packed}, {{"dtype", std::string("f32")}});
  EXPECT_EQ(value(again).dtype, DType::kF32);
}

TEST(ResidencyOps, RefuseOperandsThatDoNotFit) {
  SmallGraph g;
  const ValueId x = g.input("x", {5, 7});
  EXPECT_THROW(g.op("whole", "checkpoint_gather", {x}, gather_attributes(g.graph.value(x), 4)), Error);
  EXPECT_THROW(g.op("read", "read_from_disk", {x}, {{"to", std::string("device")}}), Error);
}

// Two ranks' parts of five numbers, the last one padded; gathered again without the padding.
TEST(ResidencyOps, SlicesGatherToTheWhole) {
  SmallGraph g;
  const ValueId x = g.input("x", {5});
  const ValueId part = g.op("part", "checkpoint_slice", {x}, {{"size", int64_t{2}}});
  g.op("whole", "checkpoint_gather", {part}, gather_attributes(g.graph.value(x), 2));
  const std::vector<float> parts[] = {{1, 2, 3}, {4, 5, 0}};
  LocalGroup group(2);
  const auto rank = [&](int r) {
    const std::unique_ptr<Communicator> world = group.join(r);
    KernelTable kernels;
    register_checkpointing_kernels(kernels,
                                   [&](std::string_view, StreamId) -> Communicator& { return *world; });
    std::vector<float> whole = {1, 2, 3, 4, 5}, mine(3, -1), again(5, -1);
    const Tensor part = tensor_of(mine, {3}, DType::kF32);
    run_op(kernels, g.graph, g.graph.op(0), {tensor_of(whole, {5}, DType::kF32)}, {part});
    EXPECT_EQ(mine, parts[r]);
    run_op(kernels, g.graph, g.graph.op(1), {part}, {tensor_of(again, {5}, DType::kF32)});
    EXPECT_EQ(again, whole);
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
}

TEST(ResidencyOps, PackingRoundsToBf16AndNothingElseRounds) {
  SmallGraph g;
  const ValueId x = g.input("x", {3});
  const ValueId packed = g.op("packed", "checkpoint_pack", {x});
  g.op("unpacked", "checkpoint_unpack", {packed}, {{"dtype", std::string("f32")}});
  g.op("host", "copy_to_host", {x});
  const std::unique_ptr<Communicator> self = make_self_communicator();
  KernelTable kernels;
  register_checkpointing_kernels(kernels, [&](std::string_view, StreamId) -> Communicator& { return *self; });
  std::vector<float> numbers = {1, 1 + 1.0F / 1024, -3.25F}, again(3), copied(3);
  std::vector<uint16_t> bits(3);
  const Tensor in = tensor_of(numbers, {3}, DType::kF32), half = tensor_of(bits, {3}, DType::kBF16);
  run_op(kernels, g.graph, g.graph.op(0), {in}, {half});
  run_op(kernels, g.graph, g.graph.op(1), {half}, {tensor_of(again, {3}, DType::kF32)});
  EXPECT_EQ(again, (std::vector<float>{1, 1, -3.25F}));
  run_op(kernels, g.graph, g.graph.op(2), {in}, {tensor_of(copied, {3}, DType::kF32)});
  EXPECT_EQ(copied, numbers);
}

TEST(ResidencyOps, WithoutADiskThereIsNoKernelForIt) {
  KernelTable kernels;
  register_checkpointing_kernels(kernels, [](std::string_view, StreamId) -> Communicator& {
    throw Error(ExitCode::kInternal, "nobody asks");
  });
  EXPECT_TRUE(kernels.has("copy_to_host"));
  EXPECT_FALSE(kernels.has("write_to_disk"));
}

TEST(ResidencyOps, TheirTablesNameThemAll) {
  OpRegistry registry;
  register_checkpointing_ops(registry);
  register_verify_ops(registry);
  std::set<std::string> registered, named = kinds_in_table("checkpointing/residency_ops.h");
  for (const OpDef* def : registry.all()) registered.insert(def->name);
  named.merge(kinds_in_table("checkpointing/verify.h"));
  EXPECT_EQ(named, registered);
}

}  // namespace
}  // namespace recollect::test::residency_ops_test
