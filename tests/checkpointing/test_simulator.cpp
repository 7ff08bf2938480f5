// The simulator on graphs small enough to time by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "checkpointing/residency_ops.h"
#include "checkpointing/simulator.h"
#include "engine/ops/ops.h"

namespace recollect::test::simulator_test {
namespace {

constexpr double kCompute = 3;  // seconds of the op that the copies may hide behind

// make -> out -> back on two side streams, while `work` runs; then `use` reads what came back.
class Copies {
 public:
  Copies() {
    register_engine_ops(registry_);
    register_checkpointing_ops(registry_);
    const ValueId x =
        graph_.add_value({.name = "x", .shape = {8}, .category = Category::kInput, .persistent = true});
    made_ = add("make", "add", {x, x});
    const ValueId away = add("out", "copy_to_host", {made_}, StreamId::kDeviceToHost);
    const ValueId again = add("back", "copy_to_device", {away}, StreamId::kHostToDevice);
    const ValueId worked = add("work", "add", {x, x});
    used_ = add("use", "add", {again, worked});
  }

  ValueId add(const char* name, const char* kind, std::vector<ValueId> inputs,
              StreamId stream = StreamId::kCompute, Phase phase = Phase::kForward,
              RunWhen when = RunWhen::kAlways) {
    const OpId id = graph_.add_op({.def = registry_.find(kind),
                                   .name = name,
                                   .inputs = std::move(inputs),
                                   .phase = phase,
                                   .when = when,
                                   .stream = stream});
    return graph_.op(id).outputs[0];
  }
  Simulation run(const std::vector<double>& durations, int64_t micro_batches = 1) const {
    return simulate(graph_, make_schedule(graph_), durations, micro_batches);
  }
  double exposed(const Simulation& simulation, const char* name) const {
    for (std::size_t i = 0; i < graph_.ops().size(); ++i)
      if (graph_.ops()[i].name == name) return simulation.exposed_seconds[i];
    ADD_FAILURE() << "no op is called " << name;
    return -1;
  }

  OpRegistry registry_;
  Graph graph_;
  ValueId made_, used_;
};

TEST(Simulator, OverlapHidesTheCopies) {
  const Copies copies;
  const Simulation s = copies.run({1, 2, 1, kCompute, 1});
  EXPECT_DOUBLE_EQ(s.step_seconds, 5);
  EXPECT_DOUBLE_EQ(s.total_exposed_seconds(), 0);
  EXPECT_DOUBLE_EQ(s.busy_seconds[static_cast<int>(StreamId::kCompute)], 5);
  EXPECT_DOUBLE_EQ(s.busy_seconds[static_cast<int>(StreamId::kDeviceToHost)], 2);
  EXPECT_DOUBLE_EQ(s.busy_seconds[static_cast<int>(StreamId::kHostToDevice)], 1);
}

TEST(Simulator, ASlowLinkExposesTheDifference) {
  const Copies copies;
  const Simulation s = copies.run({1, 2.75, 1, kCompute, 1});
  EXPECT_DOUBLE_EQ(copies.exposed(s, "use"), 0.75);
  EXPECT_DOUBLE_EQ(copies.exposed(s, "work"), 0);
  EXPECT_DOUBLE_EQ(s.total_exposed_seconds(), 0.75);
  EXPECT_DOUBLE_EQ(s.step_seconds, 5.75);
}

TEST(Simulator, WhatOutlastsTheComputeStreamIsItsTail) {
  Copies copies;
  copies.add("late", "copy_to_host", {copies.used_}, StreamId::kDeviceToHost);
  const Simulation s = copies.run({1, 2, 1, kCompute, 1, 4});
  EXPECT_DOUBLE_EQ(s.step_seconds, 9);
  EXPECT_DOUBLE_EQ(s.tail_seconds, 4);
  EXPECT_DOUBLE_EQ(s.total_exposed_seconds(), 4);
}

TEST(Simulator, MicroBatchesRepeatAndTheOptimizerDoesNot) {
  Copies copies;
  copies.add("reduce", "add", {copies.used_, copies.used_}, StreamId::kCompute, Phase::kBackward,
             RunWhen::kLastMicroBatch);
  copies.add("update", "add", {copies.used_, copies.used_}, StreamId::kCompute, Phase::kOptimizer);
  const std::vector<double> durations = {1, 2.75, 1, kCompute, 1, 0.5, 7};
  EXPECT_DOUBLE_EQ(copies.run(durations, 1).step_seconds, 5.75 + 0.5 + 7);
  const Simulation four = copies.run(durations, 4);
  EXPECT_DOUBLE_EQ(four.step_seconds, 4 * 5.75 + 0.5 + 7);
  EXPECT_DOUBLE_EQ(four.total_exposed_seconds(), 4 * 0.75);
  EXPECT_DOUBLE_EQ(four.busy_seconds[0] + four.total_exposed_seconds(), four.step_seconds);
}

// Not in a step like all others.
TEST(Simulator, WhatIsMadeOnceTakesNothingOfAStep) {
  Copies copies;
  copies.add("once", "add", {copies.used_, copies.used_}, StreamId::kCompute, Phase::kForward,
             RunWhen::kOnce);
  EXPECT_DOUBLE_EQ(copies.run({1, 2, 1, kCompute, 1, 0.5}, 2).step_seconds, 2 * 5);
}

// Of such a step the second micro-batch, and not the first, is like those that its timeline leaves out.
TEST(Simulator, WhatTheFirstMicroBatchMakesTheOthersHave) {
  Copies copies;
  copies.add("begin", "add", {copies.used_, copies.used_}, StreamId::kCompute, Phase::kForward,
             RunWhen::kFirstMicroBatch);
  const std::vector<double> durations = {1, 2, 1, kCompute, 1, 0.5};
  EXPECT_DOUBLE_EQ(copies.run(durations, 1).step_seconds, 5 + 0.5);
  StepTimeline timeline;
  const Simulation five = simulate(copies.graph_, make_schedule(copies.graph_), durations, 5, &timeline);
  EXPECT_DOUBLE_EQ(five.step_seconds, 5 * 5 + 0.5);
  std::vector<int64_t> kept, stand_for;
  int64_t sum = 0;
  for (const StepTimeline::Run& run : timeline.runs) {
    kept.push_back(run.micro_batch);
    stand_for.push_back(timeline.stands_for(run));
    sum += stand_for.back() * (run.end - run.begin);
    EXPECT_EQ(!run.ops.empty() && run.ops.back().ran(), run.micro_batch == 0);
  }
  EXPECT_EQ(kept, (std::vector<int64_t>{0, 1, 4, StepTimeline::kOptimizer}));
  EXPECT_EQ(stand_for, (std::vector<int64_t>{1, 3, 1, 1}));
  EXPECT_EQ(sum, timeline.end);
}

// Without a core of its own a copy takes turns with a thread of the kernel, and both take twice as long for
// as long as they are at it together; what sleeps in the disk does not.
TEST(Simulator, CopiesWithoutACoreDelayWhatComputes) {
  const Copies copies;
  const auto run = [&](double computing, double spare) {
    return simulate(copies.graph_, make_schedule(copies.graph_), {1, 1, 0.5, kCompute, 1}, 1, nullptr,
                    Cores{computing, spare});
  };
  EXPECT_DOUBLE_EQ(run(2, 1).step_seconds, 5);
  // The copies' 1.5 s of work take 3 s, in which `work` gets 1.5 s done; its other half follows.
  const Simulation crowded = run(2, 0);
  EXPECT_DOUBLE_EQ(crowded.step_seconds, 5 + 1.5);
  EXPECT_DOUBLE_EQ(crowded.total_exposed_seconds(), 0);
  EXPECT_DOUBLE_EQ(crowded.busy_seconds[static_cast<int>(StreamId::kCompute)], 6.5);
  EXPECT_DOUBLE_EQ(crowded.busy_seconds[static_cast<int>(StreamId::kDeviceToHost)], 2);
  EXPECT_DOUBLE_EQ(run(8, 0).step_seconds, 6.5)
      << "a kernel is as late as its last thread, whatever their number";
}

TEST(Simulator, TheDiskSleepsWhileOthersCompute) {
  Copies copies;
  copies.add("write", "write_to_disk", {copies.made_}, StreamId::kDisk);
  copies.add("more", "add", {copies.used_, copies.used_});
  const Simulation s = simulate(copies.graph_, make_schedule(copies.graph_), {1, 0, 0, kCompute, 1, 5, 1}, 1,
                                nullptr, Cores{1, 0});
  EXPECT_DOUBLE_EQ(s.step_seconds, 6);
}

// The same step as times of every op: what the sums are sums of.
TEST(Simulator, ItsTimelineIsWhatItsSumsSay) {
  Copies copies;
  copies.add("reduce", "add", {copies.used_, copies.used_}, StreamId::kCompute, Phase::kBackward,
             RunWhen::kLastMicroBatch);
  copies.add("update", "add", {copies.used_, copies.used_}, StreamId::kCompute, Phase::kOptimizer);
  const std::vector<double> durations = {1, 2.75, 1, kCompute, 1, 0.5, 7};
  StepTimeline timeline;
  const Simulation s = simulate(copies.graph_, make_schedule(copies.graph_), durations, 4, &timeline);
  ASSERT_EQ(timeline.runs.size(), 3u);
  EXPECT_EQ(timeline.end, std::llround(1e9 * s.step_seconds));
  double exposed = 0;
  for (const StepTimeline::Run& run : timeline.runs)
    for (std::size_t i = 0; i < run.ops.size(); ++i) {
      const OpTime& time = run.ops[i];
      if (!time.ran()) continue;
      const std::size_t op = run.first + i;
      EXPECT_EQ(time.end - time.begin, std::llround(1e9 * durations[op])) << copies.graph_.ops()[op].name;
      if (copies.graph_.ops()[op].stream == StreamId::kCompute)
        exposed += 1e-9 * static_cast<double>(time.waited * timeline.stands_for(run));
    }
  EXPECT_DOUBLE_EQ(exposed, s.total_exposed_seconds());
  // Of the last micro-batch, by hand: it begins when three of 5.75 s are over.
  const StepTimeline::Run& last = timeline.runs[1];
  const auto seconds = [](int64_t nanoseconds) { return 1e-9 * static_cast<double>(nanoseconds); };
  EXPECT_DOUBLE_EQ(seconds(last.begin), 3 * 5.75);
  EXPECT_DOUBLE_EQ(seconds(last.ops[4].begin), 4 * 5.75 - 1);
  EXPECT_DOUBLE_EQ(seconds(last.ops[4].waited), 0.75);
  EXPECT_FALSE(timeline.runs[0].ops[5].ran());
  EXPECT_DOUBLE_EQ(seconds(last.ops[5].end), 4 * 5.75 + 0.5);
  EXPECT_DOUBLE_EQ(seconds(timeline.runs[2].ops[0].begin), 4 * 5.75 + 0.5);
}

}  // namespace
}  // namespace recollect::test::simulator_test
