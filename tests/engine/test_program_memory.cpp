// Programs of one model in one memory: what they share, what is the running one's own, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "engine/ops/ops.h"
#include "engine/runtime/executor.h"
#include "tests/engine/expect_error.h"

namespace recollect::test {
namespace {

// total += x + x for inputs of any length, through a transient value; `total`, `early` and `late` persist.
class Model {
 public:
  explicit Model(bool scribbles = true) {
    register_engine_ops(registry_);
    if (scribbles)
      register_scribblers(kernels_);
    else
      reference::register_kernels(kernels_, nullptr);
  }

  Graph graph(int64_t length, const std::function<void(Graph&)>& edit = {}) const {
    Graph graph;
    const ValueId early = persistent(graph, "early", 5), total = persistent(graph, "total", 16),
                  late = persistent(graph, "late", 5);
    const ValueId x = graph.add_value(
        {.name = "x", .shape = {length, 16}, .category = Category::kInput, .persistent = true});
    const ValueId y = output(graph, "y", "add", {x, x});
    graph.add_op({.def = registry_.find("column_sum"),
                  .name = "total",
                  .inputs = {y},
                  .outputs = {total},
                  .accumulate = Accumulate::kAlways});
    graph.add_op({.def = registry_.find("add"), .name = "both", .inputs = {early, late}});
    if (edit) edit(graph);
    return graph;
  }
  Program program(int64_t length, const std::function<void(Graph&)>& edit = {}) const {
    return compile(graph(length, edit), kernels_);
  }

  static ValueId persistent(Graph& graph, const std::string& name, int64_t elements,
                            MemorySpace space = MemorySpace::kDevice) {
    return graph.add_value({.name = name,
                            .shape = {elements},
                            .category = Category::kGradient,
                            .space = space,
                            .persistent = true,
                            .accumulator = true});
  }

 private:
  // Trying what it does, a kernel overwrites its operands.
  class Scribbler : public Kernel {
   public:
    explicit Scribbler(std::unique_ptr<Kernel> kernel) : kernel_(std::move(kernel)) {}
    std::size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
    bool overwrites_to_prepare() const override { return true; }
    void prepare(const KernelArgs& args) override {
      for (const auto& tensors : {args.in, args.out})
        for (const Tensor& t : tensors) std::fill_n(static_cast<char*>(t.data), t.bytes(), '\xAB');
    }
    void run(const KernelArgs& args) override { kernel_->run(args); }

   private:
    std::unique_ptr<Kernel> kernel_;
  };

  static void register_scribblers(KernelTable& table) {
    const auto plain = std::make_shared<KernelTable>();
    reference::register_kernels(*plain, nullptr);
    for (const char* kind : {"add", "column_sum"})
      table.add(kind, [plain](const OpView& view) { return std::make_unique<Scribbler>(plain->make(view)); });
  }

  ValueId output(Graph& graph, const char* name, const char* kind, std::vector<ValueId> inputs) const {
    const OpId id = graph.add_op({.def = registry_.find(kind), .name = name, .inputs = std::move(inputs)});
    return graph.op(id).outputs[0];
  }

  OpRegistry registry_;
  KernelTable kernels_;
};

class ProgramMemoryTest : public ::testing::Test {
 protected:
  // Runs it on a length of ones.
  static void run(Executor& executor) {
    const ValueId x = executor.program().graph.find("x");
    const std::vector<float> ones(executor.tensor(x).elements(), 1.0f);
    executor.write(x, ones.data());
    executor.run_micro_batch({});
  }
  static std::vector<float> read(const ProgramMemory& memory, const std::string& name) {
    const Tensor tensor = memory.tensor(name);
    std::vector<float> values(tensor.elements());
    memory.read(values.data(), tensor);
    return values;
  }
  void expect_refused(const Program& program, const std::string& why) {
    const Program first = model_.program(8);
    const ProgramMemory memory(*device_, {&first});
    expect_error(ExitCode::kInternal, {why}, [&] { memory.check_fits(program); });
  }

  Model model_;
  std::unique_ptr<Device> device_ = make_cpu_device();
};

TEST_F(ProgramMemoryTest, IsWhatTheNeediestWantsAndKeepsWhatPersists) {
  Program brief = model_.program(2), lengthy = model_.program(100);
  ASSERT_LT(brief.predicted().arena_bytes(), lengthy.predicted().arena_bytes());
  ProgramMemory memory(*device_, {&brief, &lengthy});
  EXPECT_EQ(memory.arena(MemorySpace::kDevice).bytes(), lengthy.predicted().arena_bytes());
  Executor a(std::move(brief), memory);
  memory.write(memory.tensor("total"), std::vector<float>(16, 0.0f).data());
  memory.write(memory.tensor("early"), std::vector<float>{5, 6, 7, 8, 9}.data());
  run(a);
  EXPECT_EQ(read(memory, "total"), std::vector<float>(16, 4.0f));
  Executor b(std::move(lengthy), memory);  // its kernels have tried themselves on everything
  EXPECT_EQ(read(memory, "total"), std::vector<float>(16, 4.0f));
  run(b);
  run(a);
  EXPECT_EQ(read(memory, "total"), std::vector<float>(16, 4.0f + 200 + 4));
  EXPECT_EQ(read(memory, "early"), (std::vector<float>{5, 6, 7, 8, 9}));
  for (const Executor* executor : {&a, &b}) EXPECT_EQ(executor->measured(), executor->program().predicted());
}

// Counts the bytes that leave it.
class CountingDevice : public Device {
 public:
  std::string name() const override { return device_->name(); }
  Arena reserve(MemorySpace space, std::size_t bytes) override { return device_->reserve(space, bytes); }
  void write(void* to, const void* from, std::size_t bytes) override { device_->write(to, from, bytes); }
  void read(void* to, const void* from, std::size_t bytes) override {
    read_bytes += bytes;
    device_->read(to, from, bytes);
  }
  std::unique_ptr<Streams> make_streams(StreamOps ops) override {
    return device_->make_streams(std::move(ops));
  }
  std::size_t read_bytes = 0;

 private:
  std::unique_ptr<Device> device_ = make_cpu_device();
};

// A length that comes late must not wait for copies of the whole model.
TEST_F(ProgramMemoryTest, CopiesWhatKernelsOverwriteWhenTheyArePreparedAndNothingElse) {
  for (const bool scribbles : {false, true}) {
    const Model model(scribbles);
    CountingDevice device;
    Program first = model.program(8), second = model.program(4);
    ProgramMemory memory(device, {&first, &second});
    const Executor a(std::move(first), memory);
    EXPECT_EQ(device.read_bytes, 0u) << "the first program finds nothing that is worth anything";
    const Executor b(std::move(second), memory);
    EXPECT_EQ(device.read_bytes, scribbles ? (16u + 5 + 5) * sizeof(float) : 0u);  // total; early and late
  }
}

TEST_F(ProgramMemoryTest, IsWhatALaterLedgerSays) {
  const Program first = model_.program(8);
  Program later = model_.program(20);
  later.layout.ledger.host_bytes = kAlignment;
  later.layout.ledger.disk_bytes = kDiskBlock;
  const ProgramMemory memory(*device_, {&first}, later.predicted());
  EXPECT_EQ(memory.arena(MemorySpace::kDevice).bytes(), later.predicted().arena_bytes());
  EXPECT_EQ(memory.arena(MemorySpace::kHost).bytes(), kAlignment);
  EXPECT_NO_THROW(memory.check_fits(later));
}

TEST_F(ProgramMemoryTest, ReadsAndWritesWithinValues) {
  const Program program = model_.program(2);
  const ProgramMemory memory(*device_, {&program});
  const Tensor late = memory.tensor("late");
  const float numbers[] = {1, 2};
  memory.write(late, numbers, 2 * sizeof(float), sizeof numbers);
  EXPECT_EQ(read(memory, "late"), (std::vector<float>{0, 0, 1, 2, 0}));
  float two[2];
  memory.read(two, late, 3 * sizeof(float), sizeof two);
  EXPECT_EQ(two[0], 2);
  expect_error(ExitCode::kInternal, {"past the end"},
               [&] { memory.write(late, numbers, 16, sizeof numbers); });
  expect_error(ExitCode::kInternal, {"past the end"}, [&] { memory.read(two, late, 24, 1); });
  expect_error(ExitCode::kInternal, {"no persistent value x"}, [&] { memory.tensor("x"); });
}

TEST_F(ProgramMemoryTest, RefusesAProgramThatSharesSomethingElse) {
  expect_refused(model_.program(8, [](Graph& g) { Model::persistent(g, "more", 1); }), "lacks: more");
  expect_refused(model_.program(8, [](Graph& g) { g.value(g.find("late")).name = "later"; }),
                 "its memory lacks: later");
  expect_refused(model_.program(8, [](Graph& g) { g.value(g.find("early")).shape = {4}; }),
                 "early is [4] f32 of gradients at 0 of device memory; in its memory it is [5]");
  expect_refused(
      model_.program(8, [](Graph& g) { g.add_group({.name = "bucket", .members = {g.find("early")}}); }),
      "in group bucket");
  const Program grouped =
      model_.program(8, [](Graph& g) { g.add_group({.name = "bucket", .members = {g.find("early")}}); });
  const ProgramMemory memory(*device_, {&grouped});
  EXPECT_NO_THROW(memory.check_fits(grouped));
  const Program first = model_.program(8),
                with_host =
                    model_.program(8, [](Graph&g) { Model::persistent(g, "ring", 1, MemorySpace::kHost); });
  expect_error(ExitCode::kInternal, {"lacks a persistent value of its memory: ring"}, [&] {
    ProgramMemory(*device_, {&with_host, &first});
  });
  const ProgramMemory both(*device_, {&with_host});
  EXPECT_EQ(both.arena(MemorySpace::kHost).offset_of(both.tensor("ring").data), 0u);
}

TEST_F(ProgramMemoryTest, ABufferOfTheDiskIsNobodyElses) {
  const Program first = model_.program(8), with_buffer = model_.program(8, [](Graph&g) {
    g.value(Model::persistent(g, "disk/ring", 1, MemorySpace::kHost)).category = Category::kWorkspace;
  });
  const ProgramMemory memory(*device_, {&with_buffer, &first});
  EXPECT_EQ(memory.arena(MemorySpace::kHost).bytes(), with_buffer.predicted().host_bytes);
}

// Plans of lengths differ in whether anything goes to the disk, and states in the host's memory stay where they are.
TEST_F(ProgramMemoryTest, ABufferOfTheDiskMovesNothingThatIsShared) {
  const auto states = [](Graph& g) { Model::persistent(g, "states", 100, MemorySpace::kHost); };
  const Program first = model_.program(8, states), with_buffer = model_.program(8, [&](Graph&g) {
    g.value(Model::persistent(g, "disk/ring", 1, MemorySpace::kHost)).category = Category::kWorkspace;
    states(g);
  });
  for (const auto& [a, b] : {std::pair(&first, &with_buffer), std::pair(&with_buffer, &first)}) {
    const ProgramMemory memory(*device_, {a}, with_buffer.predicted());
    EXPECT_NO_THROW(memory.check_fits(*b));
  }
  EXPECT_EQ(with_buffer.layout.value_offsets[with_buffer.graph.find("disk/ring")] % kDiskBlock, 0u);
}

TEST_F(ProgramMemoryTest, RefusesAProgramThatNeedsMore) {
  expect_refused(model_.program(9), "bytes of device memory; ");
  Program more = model_.program(8);
  more.layout.ledger.host_bytes += kAlignment;
  expect_refused(more, "needs 64 bytes of host memory; 0 were reserved");
  more = model_.program(8);
  more.layout.ledger.disk_bytes += kDiskBlock;
  expect_refused(more, "needs 4096 bytes of disk; 0 were reserved");
}

// Of several programs by the one that comes first, and again when what persists was written from outside; what a program is
// given to work on is another thing.
TEST_F(ProgramMemoryTest, WhatIsMadeOnceIsMadeForAllPrograms) {
  const auto once = [](Graph& graph) {
    for (const OpId id : graph.op_ids())
      if (graph.op(id).name == "total") graph.op(id).when = RunWhen::kOnce;
  };
  Program brief = model_.program(2, once), lengthy = model_.program(4, once);
  ProgramMemory memory(*device_, {&brief, &lengthy});
  Executor a(std::move(brief), memory), b(std::move(lengthy), memory);
  const SharedTensor total = memory.shared("total"), early = memory.shared("early");
  const auto set = [&](const SharedTensor& tensor) {
    memory.write(tensor, std::vector<float>(tensor.elements(), 0.0f).data(), 0, tensor.bytes());
  };
  set(total);
  run(b);
  EXPECT_EQ(read(memory, "total")[0], 8);
  run(b);
  run(a);
  EXPECT_EQ(read(memory, "total")[0], 8);
  set(early);
  a.run_optimizer({});
  run(a);
  run(b);
  EXPECT_EQ(read(memory, "total")[0], 8 + 4);
}

}  // namespace
}  // namespace recollect::test
