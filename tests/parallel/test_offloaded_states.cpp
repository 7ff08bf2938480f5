// Optimizer states that are kept elsewhere: chunks that cover a parameter, the share that leaves, and updates that make the
// bits which they make at home, in the memory and the file that are predicted.
#include "parallel/offloaded_states.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>
#include <random>

#include "engine/ops/ops.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/lifetime.h"
#include "parallel/optimizer_step.h"
#include "parallel/state_ops.h"
#include "tests/engine/cpu_kernels.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/op_table.h"
#include "tests/engine/temporary_folder.h"

namespace recollect::test::offloaded_states_test {
namespace {

TEST(OffloadedStates, ChunksCoverEveryElementOnce) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 2000; ++i) {
    const auto most = kChunkGrain * (1 + static_cast<int64_t>(random() % 300));
    const auto elements = 1 + static_cast<int64_t>(random() % (i % 2 ? 5000000 : 20000));
    const std::vector<ElementRange> chunks = cut_into_chunks(elements, most);
    int64_t next = 0;
    for (const ElementRange& chunk : chunks) {
      ASSERT_EQ(chunk.first, next);
      ASSERT_EQ(chunk.first % kChunkGrain, 0);
      ASSERT_GT(chunk.count, 0);
      ASSERT_LE(chunk.count, most);
      next += chunk.count;
    }
    ASSERT_EQ(next, elements);
    ASSERT_LE(static_cast<int64_t>(chunks.size()), (elements + most - 1) / most) << "more than are needed";
  }
  EXPECT_EQ(cut_into_chunks(3 * kChunkGrain, 2 * kChunkGrain),
            (std::vector<ElementRange>{{0, 2 * kChunkGrain}, {2 * kChunkGrain, kChunkGrain}}));
  expect_error(ExitCode::kInternal, {"whole grains"}, [] { cut_into_chunks(10, 1000); });
}

TEST(OffloadedStates, ChunksOfWholeRowsBeginOnBlocks) {
  EXPECT_EQ(cut_into_rows(97, 128, kChunkGrain),
            (std::vector<ElementRange>{
                {0, 32 * 128}, {32 * 128, 32 * 128}, {64 * 128, 32 * 128}, {96 * 128, 128}}));
  EXPECT_EQ(cut_into_rows(97, 130, kChunkGrain), (std::vector<ElementRange>{{0, 97 * 130}}));
  EXPECT_EQ(cut_into_rows(50257, 768, 1 << 20).size(), 37u);
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{5000, 1}, {4100, 3}, {300, 2048}}) {
    int64_t next = 0;
    for (const ElementRange& chunk : cut_into_rows(rows, columns, 3 * kChunkGrain)) {
      EXPECT_EQ(chunk.first, next);
      EXPECT_EQ(chunk.first % kChunkGrain, 0);
      EXPECT_EQ(chunk.first / columns % kRowGrain, 0);
      EXPECT_EQ(chunk.count % columns, 0);
      next += chunk.count;
    }
    EXPECT_EQ(next, rows * columns);
  }
}

TEST(OffloadedStates, TheLargestLeaveUntilTheirShareIsReached) {
  const std::vector<uint64_t> bytes{10, 40, 20, 30};
  const std::vector<char> all(4, 1), but_one{1, 0, 1, 1};
  using Leaves = std::vector<char>;
  EXPECT_EQ(choose_offloaded(bytes, all, 1), (Leaves{1, 1, 1, 1}));
  EXPECT_EQ(choose_offloaded(bytes, all, 0.4), (Leaves{0, 1, 0, 0}));
  EXPECT_EQ(choose_offloaded(bytes, all, 0.41), (Leaves{0, 1, 0, 1}));
  EXPECT_EQ(choose_offloaded(bytes, all, 1e-9), (Leaves{0, 1, 0, 0}));
  EXPECT_EQ(choose_offloaded(bytes, but_one, 0.5), (Leaves{0, 0, 1, 1}));
  EXPECT_EQ(choose_offloaded(bytes, but_one, 1), (Leaves{1, 0, 1, 1}));
}

TEST(OffloadedStates, TheirTableNamesTheOps) {
  OpRegistry registry;
  register_state_ops(registry);
  std::set<std::string> registered;
  for (const OpDef* def : registry.all()) registered.insert(def->name);
  EXPECT_EQ(kinds_in_table("parallel/state_ops.h"), registered);
}

// An optimizer's phase alone: two matrices, of which one is several chunks, and a vector.
class Updates {
 public:
  Updates(const OptimizerSettings& settings, DType dtype, const std::string& folder,
          const Shape& large = {97, 130})
      : disk_(folder) {
    register_engine_ops(registry_);
    register_state_ops(registry_);
    add("large", large, dtype);
    add("small", {5, 7}, dtype);
    add("vector", {40}, DType::kF32);
    loss_ = graph_.add_value({.name = "loss",
                              .shape = {1},
                              .dtype = DType::kF64,
                              .category = Category::kWorkspace,
                              .persistent = true,
                              .accumulator = true});
    handles_ = append_optimizer(graph_, registry_, parameters_, loss_, settings, 1, 1);
    KernelTable table;
    register_cpu_kernels(table);
    const auto of_host = std::make_shared<KernelTable>();
    register_cpu_kernels(*of_host);
    register_state_kernels(table, &disk_, of_host);
    Program program = compile(graph_, table);
    disk_.open(program.predicted().disk_state_bytes);
    const bool on_disk = program.predicted().disk_state_bytes > 0;
    memory_ = std::make_unique<ProgramMemory>(*device_, std::vector<const Program*>{&program}, MemoryLedger(),
                                              on_disk ? &disk_ : nullptr);
    executor_ = std::make_unique<Executor>(std::move(program), *memory_);
    fill();
  }

  void run(int64_t steps) {
    std::vector<double> numbers;
    for (int64_t step = 0; step < steps; ++step) {
      handles_.rule->scalars(1e-2, step + 1, numbers);
      executor_->write(handles_.schedule, numbers.data());
      executor_->run_optimizer({.step = step});
    }
  }

  // Gradients of which one is no number.
  void spoil() const {
    const SharedTensor kept = memory_->shared("grad/small");
    const float none = std::numeric_limits<float>::quiet_NaN();
    memory_->write(kept, &none, 0, sizeof none);
  }

  // Of every parameter, master and state.
  std::map<std::string, std::vector<std::byte>> bits() const {
    std::map<std::string, std::vector<std::byte>> all;
    const auto add = [&](ValueId v) {
      const SharedTensor kept = memory_->shared(graph_.value(v).name);
      std::vector<std::byte>& bytes = all[kept.name];
      bytes.resize(kept.bytes());
      memory_->read(bytes.data(), kept, 0, bytes.size());
    };
    for (const Parameter& p : parameters_) {
      add(p.value);
      add(p.master);
      for (const Parameter::State& state : p.states) add(state.value);
    }
    return all;
  }

  MemorySpace space_of_state(std::size_t parameter) const {
    return graph_.value(parameters_[parameter].states[0].value).space;
  }
  const Executor& executor() const { return *executor_; }
  const OffloadReport& report() const { return handles_.offload; }
  const Graph& graph() const { return graph_; }

 private:
  void add(const std::string& name, Shape shape, DType dtype) {
    Parameter& p = parameters_.emplace_back();
    p.name = name;
    p.vector = shape.rank() == 1;
    p.rows = p.padded_rows = shape[0];
    p.columns = p.vector ? 1 : shape[1];
    p.value = graph_.add_value(
        {.name = name, .shape = shape, .dtype = dtype, .category = Category::kParameter, .persistent = true});
    p.gradient = graph_.add_value({.name = "grad/" + name,
                                   .shape = shape,
                                   .category = Category::kGradient,
                                   .persistent = true,
                                   .accumulator = true});
  }

  // Gradients and masters; what is computed with is made of these by the first update.
  void fill() const {
    std::mt19937 random(3);
    const auto write = [&](ValueId v) {
      const SharedTensor kept = memory_->shared(graph_.value(v).name);
      std::vector<float> numbers(static_cast<std::size_t>(kept.elements()));
      for (float& x : numbers) x = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
      memory_->write(kept, numbers.data(), 0, kept.bytes());
    };
    for (const Parameter& p : parameters_) write(p.gradient), write(p.master);
  }

  OpRegistry registry_;
  Graph graph_;
  std::vector<Parameter> parameters_;
  ValueId loss_ = kNone;
  OptimizerHandles handles_;
  DiskStore disk_;
  const std::unique_ptr<Device> device_ = make_cpu_device();
  std::unique_ptr<ProgramMemory> memory_;
  std::unique_ptr<Executor> executor_;
};

OptimizerSettings with(std::string name, StateOffload offload = {}) {
  return {.name = std::move(name), .momentum = 0.9, .weight_decay = 0.1, .offload = offload};
}

constexpr StateOffload kOnDisk{.to = OffloadTo::kDisk, .chunk_elements = kChunkGrain};

TEST(OffloadedStates, AreUpdatedToTheSameBits) {
  const TemporaryFolder folder;
  for (const char* rule : {"adamw", "adam", "adamw_hf", "sgd", "lion"})
    for (const DType dtype : {DType::kF32, DType::kBF16})
      for (const OffloadTo to : {OffloadTo::kDisk, OffloadTo::kHost}) {
        SCOPED_TRACE(std::string(rule) + " " + std::string(name_of(dtype)) + " " + std::string(name_of(to)));
        Updates home(with(rule), dtype, folder.path()),
            away(with(rule, {.to = to, .chunk_elements = kChunkGrain}), dtype, folder.path());
        home.run(3);
        away.run(3);
        EXPECT_TRUE(home.bits() == away.bits());
        EXPECT_EQ(away.executor().measured(), away.executor().program().predicted());
        EXPECT_EQ(away.report().parameters, 2);
        EXPECT_EQ(away.report().chunks, 4 + 1);
        EXPECT_EQ(away.space_of_state(0), space_of(to));
        EXPECT_EQ(away.space_of_state(2), MemorySpace::kDevice) << "a vector stays";
        EXPECT_EQ(home.report().values, 0);
      }
}

// The large matrix has four chunks of rows, and its blocks' sizes stay.
TEST(OffloadedStates, OfOneByteAreUpdatedToTheSameBits) {
  const TemporaryFolder folder;
  for (const char* rule : {"adamw8bit", "lion8bit"})
    for (const auto& [dtype, to] :
         {std::pair(DType::kF32, OffloadTo::kDisk), std::pair(DType::kBF16, OffloadTo::kHost)}) {
      SCOPED_TRACE(std::string(rule) + " " + std::string(name_of(dtype)) + " " + std::string(name_of(to)));
      Updates home(with(rule), dtype, folder.path(), {97, 384}),
          away(with(rule, {.to = to, .chunk_elements = 3 * kChunkGrain}), dtype, folder.path(), {97, 384});
      home.run(2);
      away.run(2);
      EXPECT_TRUE(home.bits() == away.bits());
      EXPECT_EQ(away.executor().measured(), away.executor().program().predicted());
      EXPECT_EQ(away.report().chunks, 4 + 1);
      EXPECT_EQ(away.space_of_state(0), space_of(to));
      EXPECT_EQ(away.graph().value(away.graph().find("exp_avg_absmax/large")).space, MemorySpace::kDevice);
    }
}

// Two moments and the master of 97 x 130 and 5 x 7 elements, of which each begins on a block in the file.
TEST(OffloadedStates, TakeTheBytesThatArePredicted) {
  const TemporaryFolder folder;
  const Updates away(with("adamw", kOnDisk), DType::kBF16, folder.path()),
      home(with("adamw"), DType::kBF16, folder.path());
  const MemoryLedger &there = away.executor().program().predicted(),
                     &here = home.executor().program().predicted();
  const uint64_t large = 97 * 130 * 4, small = 5 * 7 * 4;
  EXPECT_EQ(away.report().values, 6);
  EXPECT_EQ(away.report().fetched_bytes, 3 * (large + small));
  EXPECT_EQ(away.report().stored_bytes, 3 * (large + small));
  EXPECT_EQ(away.report().saved_bytes, 3 * (aligned(large) + aligned(small)));
  EXPECT_EQ(here.persistent_bytes - there.persistent_bytes, away.report().saved_bytes);
  EXPECT_EQ(there.disk_state_bytes, 3 * (block_bytes(large, MemorySpace::kDisk) + kDiskBlock));
  EXPECT_EQ(there.disk_bytes, 0u);
  EXPECT_EQ(there.host_bytes, DiskStore::kRingBytes);
  EXPECT_EQ(here.disk_state_bytes + here.host_bytes, 0u);
  // Four chunks of three values at a time, whatever the parameter.
  EXPECT_LE(there.transient_bytes - here.transient_bytes, 4 * 3 * static_cast<uint64_t>(kChunkGrain) * 4);
}

TEST(OffloadedStates, StayInPartWhereTheShareIsSmall) {
  const TemporaryFolder folder;
  StateOffload half = kOnDisk;
  half.ratio = 0.5;
  Updates away(with("adamw", half), DType::kF32, folder.path()),
      home(with("adamw"), DType::kF32, folder.path());
  EXPECT_EQ(away.report().parameters, 1);
  EXPECT_EQ(away.space_of_state(0), MemorySpace::kDisk);
  EXPECT_EQ(away.space_of_state(1), MemorySpace::kDevice);
  away.run(2);
  home.run(2);
  EXPECT_TRUE(home.bits() == away.bits());
}

// Updates wait for their chunk alone: the next one travels meanwhile.
TEST(OffloadedStates, AreFetchedAhead) {
  const TemporaryFolder folder;
  const Updates away(with("lion", kOnDisk), DType::kF32, folder.path());
  std::vector<std::string> order;
  for (const Op& op : away.graph().ops())
    if (op.stream == StreamId::kDisk || op.name.starts_with("update/large")) order.push_back(op.name);
  EXPECT_EQ((std::vector<std::string>(order.begin(), order.begin() + 7)),
            (std::vector<std::string>{"fetch/exp_avg/large/chunk0", "fetch/exp_avg/large/chunk1",
                                      "update/large/chunk0", "store/exp_avg/large/chunk0",
                                      "fetch/exp_avg/large/chunk2", "update/large/chunk1",
                                      "store/exp_avg/large/chunk1"}));
}

constexpr StateOffload kByHost{
    .to = OffloadTo::kHost, .update = OffloadUpdate::kHost, .chunk_elements = kChunkGrain};

// The same kernels, in another place. In f32 too there is a master there.
TEST(HostUpdates, GiveTheBitsOfTheirKernels) {
  const TemporaryFolder folder;
  for (const char* rule : {"adamw", "adam", "adamw_hf", "sgd", "lion"})
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      SCOPED_TRACE(std::string(rule) + " " + std::string(name_of(dtype)));
      Updates home(with(rule), dtype, folder.path()), away(with(rule, kByHost), dtype, folder.path());
      home.run(3);
      away.run(3);
      auto there = away.bits();
      if (dtype == DType::kF32)
        for (const char* matrix : {"large", "small"}) {
          const auto master = there.extract(std::string("master/") + matrix);
          ASSERT_FALSE(master.empty()) << matrix;
          EXPECT_TRUE(master.mapped() == there.at(matrix)) << matrix;
        }
      EXPECT_TRUE(home.bits() == there);
      EXPECT_EQ(away.executor().measured(), away.executor().program().predicted());
      EXPECT_EQ(away.report().parameters, 2);
      EXPECT_EQ(away.report().chunks, 4 + 1);
      EXPECT_EQ(away.space_of_state(0), MemorySpace::kHost);
      EXPECT_EQ(away.space_of_state(2), MemorySpace::kDevice) << "a vector stays";
    }
}

// What earlier chunks have left where parameters wait for their way back goes nowhere.
TEST(HostUpdates, AreLeftOutWhereGradientsAreNoNumbers) {
  const TemporaryFolder folder;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Updates updates(with("adamw", kByHost), dtype, folder.path());
    updates.run(1);
    const auto before = updates.bits();
    updates.spoil();
    updates.run(1);
    EXPECT_TRUE(updates.bits() == before) << name_of(dtype);
  }
}

// Gradients and parameters travel, and nothing else; three chunks of each are in the host's memory at a time.
TEST(HostUpdates, TakeTheBytesThatArePredicted) {
  const TemporaryFolder folder;
  const uint64_t large = 97 * 130, small = 5 * 7, elements = large + small;
  for (const auto& [dtype, wide] : {std::pair(DType::kF32, uint64_t{4}), {DType::kBF16, uint64_t{2}}}) {
    const Updates away(with("adamw", kByHost), dtype, folder.path()),
        home(with("adamw"), dtype, folder.path());
    const MemoryLedger &there = away.executor().program().predicted(),
                       &here = home.executor().program().predicted();
    const uint64_t leave = wide == 4 ? 2 : 3;  // of f32 the master is a copy of the parameter
    EXPECT_EQ(away.report().stored_bytes, 4 * elements);
    EXPECT_EQ(away.report().fetched_bytes, wide * elements);
    EXPECT_EQ(away.report().stayed_bytes, leave * 4 * elements);
    EXPECT_EQ(away.report().values, 6);
    EXPECT_EQ(away.report().saved_bytes, leave * (aligned(4 * large) + aligned(4 * small)));
    EXPECT_EQ(here.persistent_bytes - there.persistent_bytes, away.report().saved_bytes);
    EXPECT_LE(there.transient_bytes, here.transient_bytes);
    EXPECT_EQ(there.host_bytes, 3 * (aligned(4 * large) + aligned(4 * small)) +
                                    3 * static_cast<uint64_t>(kChunkGrain) * (4 + wide) + 2 * aligned(1));
  }
}

TEST(HostUpdates, RunBesideTheWaysThereAndBack) {
  const TemporaryFolder folder;
  const Updates away(with("lion", kByHost), DType::kBF16, folder.path());
  const Graph& graph = away.graph();
  std::map<StreamId, std::vector<std::string>> order;
  for (const Op& op : graph.ops())
    if (op.name.find("large") != std::string::npos) order[op.stream].push_back(op.name);
  for (const auto& [stream, first] : {std::pair(StreamId::kDeviceToHost, "store/grad/large/chunk0"),
                                      {StreamId::kHost, "update/large/chunk0"},
                                      {StreamId::kHostToDevice, "fetch/large/chunk0"}}) {
    ASSERT_EQ(order[stream].size(), 4u) << name_of(stream);
    EXPECT_EQ(order[stream].front(), first);
  }
  EXPECT_EQ(order.size(), 3u) << "nothing of it is on the compute stream";
  // The fourth chunk takes the place of the first, when that has been read.
  for (const Op& op : graph.ops()) {
    if (op.name == "store/grad/large/chunk3") {
      EXPECT_EQ(graph.value(op.after.at(0)).name, "master/large/chunk0");
    }
    if (op.name == "update/large/chunk3") {
      EXPECT_EQ(graph.value(op.after.at(0)).name, "large/chunk0");
    }
  }
  const Op& last = graph.ops().back();
  EXPECT_EQ(last.def->name, "await_updates");
  EXPECT_EQ(graph.value(last.after.at(0)).name, "small/chunk0");
}

TEST(OffloadedStates, AreRefusedWhereNoneCanLeave) {
  const TemporaryFolder folder;
  for (const char* rule : {"adafactor", "muon"})
    expect_error(ExitCode::kConfiguration, {"optimizer.offload has no effect"},
                 [&] { Updates(with(rule, kOnDisk), DType::kF32, folder.path()); });
}

}  // namespace
}  // namespace recollect::test::offloaded_states_test
