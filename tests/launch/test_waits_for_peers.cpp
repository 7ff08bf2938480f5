// One rank is held for a known time in a step. The others' reports say how long they waited for it, in which
// collectives, and that it was this one; its own does not.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "engine/io/node.h"
#include "launch/report/chrome_trace.h"
#include "launch/report/rank_report_json.h"
#include "tests/launch/process.h"
#include "tests/launch/ranks_by_hand.h"
#include "tests/launch/report_harness.h"

namespace recollect::test::waits_for_peers_test {
namespace {

using namespace std::chrono_literals;

constexpr auto kHeld = 600ms;
constexpr double kHeldSeconds = 0.6;

// Holds a rank once, before an op in the middle of backward.
class Hold final : public ExecutorProbe {
 public:
  void before_op(const Executor& executor, OpId id) override {
    const Op& op = executor.program().graph.op(id);
    if (done || op.stream != StreamId::kCompute || op.phase != Phase::kBackward) return;
    done = true;
    std::this_thread::sleep_for(kHeld);
  }
  bool done = false;
};

// Seconds of all steps that it waited for others, and for whom most, on the compute stream or any other.
struct Seen {
  double on_compute = 0, anywhere = 0, exposed = 0, computing = 0, mean = 0;
  std::map<int, double> for_rank;
};

Seen seen_by(const RankReport& report) {
  const auto steps = static_cast<double>(report.step.steps);
  Seen seen{.on_compute = steps * report.step.waiting_for_peers(),
            .exposed = steps * report.step.measured_exposed.total(),
            .computing = steps * report.step.computing(),
            .mean = steps * report.step.mean,
            .for_rank = {}};
  for (const CollectiveTimes& c : report.step.collectives) {
    EXPECT_TRUE(c.measured);
    seen.anywhere += steps * c.waiting;
    for (const auto& [rank, seconds] : c.for_ranks) seen.for_rank[rank] += steps * seconds;
  }
  return seen;
}

std::vector<RankReport> reports_with_held(int tensor, int data, int held) {
  Hold hold;
  return reports_of_run({"parallelism.tensor_parallel_size=" + std::to_string(tensor),
                         "parallelism.ranks_per_process=" + std::to_string(tensor * data),
                         "training.max_steps=2", "profiling.step=1"},
                        [&](int rank) { return ProgramParts{.probe = rank == held ? &hold : nullptr}; });
}

int most(const std::map<int, double>& for_rank) {
  return std::max_element(for_rank.begin(), for_rank.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

TEST(WaitsForPeers, OfTensorRanksAreCountedAndNamed) {
  for (const int ranks : {2, 4}) {
    const int held = ranks - 1;
    for (const RankReport& report : reports_with_held(ranks, 1, held)) {
      const Seen seen = seen_by(report);
      SCOPED_TRACE("rank " + std::to_string(report.rank) + " of " + std::to_string(ranks) + "\n" +
                   step_text(report.step));
      if (report.rank == held) {
        EXPECT_LT(seen.anywhere, 0.5 * kHeldSeconds);
        EXPECT_GT(seen.computing, 0.9 * kHeldSeconds);
        continue;
      }
      EXPECT_GT(seen.on_compute, 0.8 * kHeldSeconds);
      EXPECT_LT(seen.on_compute, 1.5 * kHeldSeconds);
      EXPECT_EQ(most(seen.for_rank), held);
      EXPECT_LT(seen.computing, 0.6 * kHeldSeconds) << "the wait is not its own work";
      EXPECT_NEAR(seen.computing + seen.on_compute + seen.exposed, seen.mean, 1e-9);
      EXPECT_NE(step_text(report.step).find(" for rank " + std::to_string(held)), std::string::npos);
    }
  }
}

// Of four: the tensor peer waits for the held rank in a tensor collective, the data peer where gradients are
// summed; who has no group with it waits for one of those.
TEST(WaitsForPeers, OfAMeshReachEveryoneByTheirOwnGroups) {
  const int held = 1;
  const std::map<int, int> waits_for{{0, 1}, {3, 1}};
  for (const RankReport& report : reports_with_held(2, 2, held)) {
    const Seen seen = seen_by(report);
    SCOPED_TRACE("rank " + std::to_string(report.rank) + "\n" + step_text(report.step));
    if (report.rank == held) {
      EXPECT_LT(seen.anywhere, 0.5 * kHeldSeconds);
      continue;
    }
    EXPECT_GT(seen.anywhere, 0.8 * kHeldSeconds);
    EXPECT_GT(seen.on_compute + seen.exposed, 0.8 * kHeldSeconds);
    if (waits_for.contains(report.rank)) {
      EXPECT_EQ(most(seen.for_rank), waits_for.at(report.rank));
    }
  }
}

// The recorded step shows in which op.
TEST(WaitsForPeers, AreInTheTimelineAndItsTrace) {
  const std::vector<RankReport> reports = reports_with_held(2, 1, 1);
  const auto longest = [](const RankReport& report) {
    OpTime found;
    for (const StepTimeline::Run& run : report.timeline.measured->runs)
      for (const OpTime& time : run.ops)
        if (time.stood > found.stood) found = time;
    return found;
  };
  const OpTime waited = longest(reports[0]);
  EXPECT_GT(1e-9 * static_cast<double>(waited.stood), 0.8 * kHeldSeconds);
  EXPECT_LE(waited.stood, waited.end - waited.begin);
  EXPECT_EQ(waited.whom, 1);
  EXPECT_LT(1e-9 * static_cast<double>(longest(reports[1]).stood), 0.5 * kHeldSeconds);
  const RankReport again = read_rank_report(rank_report_text(reports[0]), "again");
  EXPECT_EQ(again.step, reports[0].step);
  EXPECT_EQ(again.timeline, reports[0].timeline);
  ChromeTrace trace;
  trace.add(reports[0], ChromeTrace::Times::kMeasured);
  EXPECT_NE(trace.text().find(R"("name":"wait for rank 1")"), std::string::npos);
}

// The real program, and a rank that is stopped from outside, again and again: now and then in the middle of a
// transfer, where the others have seen it come.
class StoppedRank : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Over, StoppedRank, ::testing::Values("local", "tcp"));

TEST_P(StoppedRank, IsNamedInTheOthersReport) {
  const Workplace place;
  RanksByHand ranks(place);
  const uint16_t port = free_port();
  constexpr int kSteps = 500;
  for (int rank = 0; rank < 2; ++rank) {
    Environment environment = torchrun_variables(rank, 2, 2, "127.0.0.1", port);
    environment["RECOLLECT_RUN_ID"] = "stopped-" + std::to_string(::getpid()) + GetParam();
    ranks.start(environment,
                {"parallelism.tensor_parallel_size=2", "training.max_steps=" + std::to_string(kSteps),
                 "parallelism.communicator=" + std::string(GetParam())});
  }
  ASSERT_TRUE(ranks.wait_for_steps());
  const pid_t stopped = ranks.process(1).pid();
  constexpr int kStops = 8;
  constexpr auto kStop = 200ms;
  for (int stops = 0; stops < kStops; ++stops) {
    ASSERT_EQ(::kill(stopped, SIGSTOP), 0);
    std::this_thread::sleep_for(kStop);
    ASSERT_EQ(::kill(stopped, SIGCONT), 0);
    std::this_thread::sleep_for(15ms);
  }
  const double most_of_it = 0.8 * kStops * std::chrono::duration<double>(kStop).count();
  for (const Finished& finished : ranks.wait()) ASSERT_EQ(finished.status, 0) << finished.err;
  const auto report = read_rank_report(TemporaryFolder::read(place.file("out/memory.rank0.json")), "rank 0");
  const Seen seen = seen_by(report);
  EXPECT_EQ(report.step.steps, kSteps);
  EXPECT_GT(seen.for_rank.at(1), most_of_it);
  EXPECT_GT(seen.on_compute, most_of_it);
}

}  // namespace
}  // namespace recollect::test::waits_for_peers_test
