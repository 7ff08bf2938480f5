// A rank that keeps the others waiting is seen by all of them: for how long, and that it is this one. Its own
// calls wait for nobody.
#include "comm/call_times.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/comm/held_rank.h"
#include "tests/comm/ranks.h"

namespace recollect {
namespace {

using namespace std::chrono_literals;
using namespace test;

using Runner = std::vector<Outcome> (*)(int, const RankFunction&, std::chrono::milliseconds, std::size_t);

class CallTimesOver : public ::testing::TestWithParam<std::tuple<Runner, int>> {};
INSTANTIATE_TEST_SUITE_P(All, CallTimesOver,
                         ::testing::Combine(::testing::Values(run_as_threads, run_as_processes,
                                                              run_over_tcp_as_threads,
                                                              run_over_tcp_as_processes),
                                            ::testing::Values(2, 4)));

TEST_P(CallTimesOver, AHeldRankIsWaitedForAndNamed) {
  const auto [run, ranks] = GetParam();
  expect_fine(run(
      ranks,
      [](Communicator& world) {
        const std::string problem = problem_with_held_rank(world, world.size() - 1);
        if (!problem.empty()) throw Error(ExitCode::kIntegrity, problem);
      },
      60s, kDefaultChunkBytes));
}

// Names are of the world, places of the group. Rank 3 begins to be late when rank 1 is there, however busy the machine is.
TEST(CallTimesOfGroups, NameRanksOfTheWorld) {
  std::atomic<bool> is_there{false};
  expect_fine(run_as_threads(4, [&](Communicator& world) {
    const auto pair = world.split(world.rank() % 2);
    EXPECT_EQ(pair->times()->ranks(), (std::vector{world.rank() % 2, world.rank() % 2 + 2}));
    if (world.rank() == 1) is_there = true;
    while (world.rank() == 3 && !is_there) std::this_thread::sleep_for(1ms);
    if (world.rank() == 3) std::this_thread::sleep_for(200ms);
    pair->barrier();
    if (world.rank() == 1) {
      EXPECT_EQ(pair->times()->latest(), 3);
      EXPECT_GT(pair->times()->waiting_by_rank()[1], 0.05);
    }
    if (world.rank() == 3) {
      EXPECT_LT(pair->times()->waiting(), 0.05);
    }
  }));
}

TEST(CallTimesOfGroups, AreNothingWhereThereIsNobody) {
  EXPECT_EQ(make_self_communicator()->times(), nullptr);
}

}  // namespace
}  // namespace recollect
