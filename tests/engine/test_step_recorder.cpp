// The times of a recorded step: every op that ran, in the order that streams and waits allow, and nothing of
// other steps.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "engine/ops/ops.h"
#include "engine/runtime/step_recorder.h"

namespace recollect {
namespace {

enum : OpId { kMake, kSide, kWork, kUse, kReduce, kUpdate };  // in program order

// Two streams in forward, an op of the last micro-batch only, or of the first, and an optimizer.
class Step {
 public:
  explicit Step(RunWhen when = RunWhen::kLastMicroBatch) {
    register_engine_ops(registry_);
    const ValueId x =
        graph_.add_value({.name = "x", .shape = {1024}, .category = Category::kInput, .persistent = true});
    const ValueId made = add("make", {x, x});
    const ValueId side = add("side", {made, made}, {.stream = StreamId::kGather});
    const ValueId worked = add("work", {x, made});
    const ValueId used = add("use", {side, worked});
    add("reduce", {used, used}, {.phase = Phase::kBackward, .when = when});
    add("update", {x, x}, {.phase = Phase::kOptimizer});
  }

  Program compile() {
    KernelTable kernels;
    reference::register_kernels(kernels, nullptr);
    return recollect::compile(graph_, kernels);
  }
  const Graph& graph() const { return graph_; }

 private:
  struct How {
    Phase phase = Phase::kForward;
    RunWhen when = RunWhen::kAlways;
    StreamId stream = StreamId::kCompute;
  };
  ValueId add(const char* name, std::vector<ValueId> inputs) { return add(name, std::move(inputs), How{}); }
  ValueId add(const char* name, std::vector<ValueId> inputs, How how) {
    const OpId id = graph_.add_op({.def = registry_.find("add"),
                                   .name = name,
                                   .inputs = std::move(inputs),
                                   .phase = how.phase,
                                   .when = how.when,
                                   .stream = how.stream});
    return graph_.op(id).outputs[0];
  }

  OpRegistry registry_;
  Graph graph_;
};

// What a slow side stream is to an executor: its op ends long after the compute stream has come to its wait.
class SlowSide final : public ExecutorProbe {
 public:
  static constexpr std::chrono::milliseconds kDelay{100};
  void before_op(const Executor&, OpId id) override {
    if (id == kMake) worked = false;
    if (id == kSide) {
      worked.wait(false);
      std::this_thread::sleep_for(kDelay);
    }
    ++begun;
  }
  void after_op(const Executor&, OpId id) override {
    if (id == kWork) {
      worked = true;
      worked.notify_all();
    }
    ++ended;
  }
  std::atomic<bool> worked = false;
  std::atomic<int> begun = 0, ended = 0;
};

// A step, what runs it, and the recorder that watches.
struct Watched {
  explicit Watched(int64_t micro_batches, RunWhen when = RunWhen::kLastMicroBatch,
                   ExecutorProbe* other = nullptr, std::unique_ptr<Device> on = make_cpu_device())
      : step(when), recorder(step.graph(), micro_batches, other), device(std::move(on)) {}

  Step step;
  StepRecorder recorder;
  std::unique_ptr<Device> device;
  Program program = step.compile();
  ProgramMemory memory{*device, {&program}};
  Executor executor{std::move(program), memory, &recorder};
};

// One step of `micro_batches`, announced to the recorder as a session does.
void run_step(Executor& executor, StepRecorder& recorder, int64_t micro_batches) {
  RunState state{.micro_batches = micro_batches};
  for (state.micro_batch = 0; state.micro_batch < micro_batches; ++state.micro_batch) {
    recorder.begin_run(executor, state.micro_batch);
    executor.run_micro_batch(state);
    recorder.end_run();
  }
  recorder.begin_run(executor, StepTimeline::kOptimizer);
  executor.run_optimizer(state);
  recorder.end_step();
}

void expect_possible(const StepTimeline::Run& run, const Program& program) {
  std::array<int64_t, kStreamCount> now;
  now.fill(run.begin);
  for (std::size_t i = 0; i < run.ops.size(); ++i) {
    const OpId id = run.first + static_cast<OpId>(i);
    const OpTime& time = run.ops[i];
    if (!time.ran()) continue;
    int64_t& before = now[static_cast<std::size_t>(program.graph.op(id).stream)];
    EXPECT_GE(time.begin - time.waited, before) << program.graph.op(id).name;
    EXPECT_GE(time.end, time.begin) << program.graph.op(id).name;
    EXPECT_LE(time.end, run.end) << program.graph.op(id).name;
    before = time.end;
    for (OpId other : program.schedule.waits[id])
      if (other >= run.first) {
        EXPECT_GE(time.begin, run.ops[other - run.first].end) << program.graph.op(id).name;
      }
  }
}

TEST(StepRecorder, KeepsTheFirstAndTheLastMicroBatchAndTheOptimizer) {
  Watched watched(4);
  StepRecorder& recorder = watched.recorder;
  Executor& executor = watched.executor;
  recorder.begin_step();
  run_step(executor, recorder, 4);
  ASSERT_TRUE(recorder.complete());
  const StepTimeline& timeline = recorder.timeline();
  ASSERT_EQ(timeline.runs.size(), 3u);
  int64_t now = 0;
  const int64_t expected[] = {0, 3, StepTimeline::kOptimizer};
  for (int i = 0; i < 3; ++i) {
    const StepTimeline::Run& run = timeline.runs[i];
    EXPECT_EQ(run.micro_batch, expected[i]);
    EXPECT_GE(run.begin, now);
    expect_possible(run, executor.program());
    now = run.end;
  }
  EXPECT_GE(timeline.end, now);
  EXPECT_EQ(timeline.stands_for(timeline.runs[0]), 3);
  EXPECT_EQ(timeline.stands_for(timeline.runs[1]), 1);
  // What runs in the last micro-batch only has been passed over in the first.
  EXPECT_FALSE(timeline.runs[0].ops[kReduce].ran());
  EXPECT_TRUE(timeline.runs[1].ops[kReduce].ran());
  EXPECT_TRUE(timeline.runs[2].ops[kUpdate - timeline.runs[2].first].ran());
}

TEST(StepRecorder, KeepsTheSecondMicroBatchTooWhereTheFirstDoesMore) {
  Watched watched(4, RunWhen::kFirstMicroBatch);
  StepRecorder& recorder = watched.recorder;
  Executor& executor = watched.executor;
  recorder.begin_step();
  run_step(executor, recorder, 4);
  const StepTimeline& timeline = recorder.timeline();
  ASSERT_EQ(timeline.runs.size(), 4u);
  const int64_t micro_batches[] = {0, 1, 3}, alike[] = {1, 2, 1};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(timeline.runs[i].micro_batch, micro_batches[i]);
    EXPECT_EQ(timeline.stands_for(timeline.runs[i]), alike[i]);
    EXPECT_EQ(timeline.runs[i].ops[kReduce].ran(), i == 0);
  }
}

TEST(StepRecorder, AWaitIsTheOneTheExecutorCounts) {
  SlowSide slow;
  Watched watched(1, RunWhen::kLastMicroBatch, &slow);
  StepRecorder& recorder = watched.recorder;
  Executor& executor = watched.executor;
  run_step(executor, recorder, 1);  // its waits are not the recorded step's
  EXPECT_FALSE(recorder.complete());
  const double before = executor.waits().by_op()[kUse];
  recorder.begin_step();
  run_step(executor, recorder, 1);
  const std::vector<OpTime>& ops = recorder.timeline().runs.at(0).ops;
  const double waited = executor.waits().by_op()[kUse] - before;
  EXPECT_NEAR(1e-9 * static_cast<double>(ops[kUse].waited), waited, 2e-9);
  EXPECT_GT(waited, 0);
  EXPECT_EQ(ops[kWork].waited, 0);
  // The other probe is called too, and what it does counts as the op's.
  EXPECT_GE(ops[kSide].end - ops[kSide].begin, std::chrono::nanoseconds(SlowSide::kDelay).count());
  EXPECT_EQ(slow.begun, 12);
  EXPECT_EQ(slow.ended, 12);
}

// A device whose streams run ops when they like and say afterwards when that was.
class LateStreams final : public Streams {
 public:
  using Streams::Streams;
  void run(OpId begin, OpId end, const RunState& state) override {
    waits_.begin_run();
    times_ = {.seconds = kOp * (end - begin + 1), .first = begin};
    for (OpId id = begin; id < end; ++id) {
      if (ops_.before) ops_.before(id);
      ops_.run(id, {.state = &state});
      if (ops_.after) ops_.after(id);
      times_.ops.push_back({kOp * (id - begin + 0.5), kOp * (id - begin + 1)});
      if (id == kUse) waits_.waited(id, kSide, 0, kOp / 2, true);
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(2 * times_.seconds));  // all was launched late
  }
  void time_ops(bool on) override { timing_ = on; }
  const RunTimes* times() const override { return timing_ ? &times_ : nullptr; }

  static constexpr double kOp = 1e-3;

 private:
  bool timing_ = false;
  RunTimes times_;
};

class LateDevice final : public Device {
 public:
  std::string name() const override { return "late"; }
  Arena reserve(MemorySpace space, std::size_t bytes) override { return cpu_->reserve(space, bytes); }
  void write(void* to, const void* from, std::size_t bytes) override { cpu_->write(to, from, bytes); }
  void read(void* to, const void* from, std::size_t bytes) override { cpu_->read(to, from, bytes); }
  std::unique_ptr<Streams> make_streams(StreamOps ops) override {
    return std::make_unique<LateStreams>(std::move(ops));
  }

 private:
  std::unique_ptr<Device> cpu_ = make_cpu_device();
};

TEST(StepRecorder, TakesTheTimesOfADeviceThatRunsOpsLater) {
  Watched watched(1, RunWhen::kLastMicroBatch, nullptr, std::make_unique<LateDevice>());
  StepRecorder& recorder = watched.recorder;
  Executor& executor = watched.executor;
  EXPECT_EQ(executor.times(), nullptr);
  recorder.begin_step();
  run_step(executor, recorder, 1);
  ASSERT_TRUE(recorder.complete());
  EXPECT_EQ(executor.times(), nullptr) << "other steps are not timed";
  constexpr int64_t kOp = 1000000;
  for (const StepTimeline::Run& run : recorder.timeline().runs) {
    expect_possible(run, executor.program());
    const auto count = static_cast<int64_t>(run.ops.size());
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_NEAR(run.ops[i].begin, run.end - kOp * (count + 1 - i) + kOp / 2, 2);
      EXPECT_NEAR(run.ops[i].end, run.end - kOp * (count - i), 2);
    }
  }
  EXPECT_NEAR(recorder.timeline().runs.at(0).ops[kUse].waited, kOp / 2, 2);
}

TEST(StepRecorder, OutsideOfAStepNothingIsRecordedAndNoMemoryMoves) {
  Watched watched(2);
  StepRecorder& recorder = watched.recorder;
  Executor& executor = watched.executor;
  std::vector<const OpTime*> places;
  for (const StepTimeline::Run& run : recorder.timeline().runs) places.push_back(run.ops.data());
  recorder.begin_step();
  run_step(executor, recorder, 2);
  const StepTimeline recorded = recorder.timeline();
  run_step(executor, recorder, 2);
  EXPECT_EQ(recorder.timeline(), recorded);
  recorder.begin_step();
  run_step(executor, recorder, 2);
  EXPECT_NE(recorder.timeline(), recorded) << "another step has other times";
  for (std::size_t i = 0; i < places.size(); ++i)
    EXPECT_EQ(recorder.timeline().runs[i].ops.data(), places[i]);
}

}  // namespace
}  // namespace recollect
