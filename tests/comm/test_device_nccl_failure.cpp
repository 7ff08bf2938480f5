// With NCCL too, one rank's failure is everyone's failure, and says what happened.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/comm/device_checks.h"
#include "tests/comm/device_nccl.h"
#include "tests/comm/ranks.h"

namespace recollect {
namespace {

using namespace std::chrono_literals;
using namespace test;
using nccl::join_nccl_world;
using Clock = std::chrono::steady_clock;

// Far longer than these tests may take: whoever waits for it has not noticed the failure.
constexpr auto kNever = 100s;
constexpr auto kSoon = 10s;
constexpr std::chrono::milliseconds kShort = 500ms;  // for what must time out

std::unique_ptr<Communicator> join_within(Communicator& world, std::chrono::milliseconds timeout = kNever) {
  return join_nccl_world(load_fake_nccl(), gpu_of(world), world, patience(timeout));
}

using Runner = std::vector<Outcome> (*)(int, const RankFunction&, std::chrono::milliseconds, std::size_t);

class NcclFailure : public ::testing::TestWithParam<Runner> {
 protected:
  std::vector<Outcome> run(int ranks, const RankFunction& function) {
    const auto start = Clock::now();
    auto outcomes = GetParam()(ranks, function, kNever, kDefaultChunkBytes);
    EXPECT_LT(Clock::now() - start, kSoon);
    return outcomes;
  }
  Behaviour behaviour_;
};

constexpr const char* kRunnerNames[] = {"Threads", "Processes", "Tcp"};
INSTANTIATE_TEST_SUITE_P(Fake, NcclFailure,
                         ::testing::Values(run_as_threads, run_as_processes, run_over_tcp_as_processes),
                         [](const auto& info) { return kRunnerNames[info.index]; });

TEST_P(NcclFailure, ARankThatDoesNotComeIsNamed) {
  const auto outcomes = run(4, [](Communicator& world) {
    const auto c = join_within(world, kShort);
    sum_on_stream(*c);
    if (c->rank() == 2) c->barrier();  // elsewhere, until it hears of it
    sum_on_stream(*c);
  });
  expect_each(
      outcomes, {0, 1, 3}, ExitCode::kPeerLost,
      {"all_reduce #2 (sum, f32, 12 bytes) among ranks 0, 1, 2, 3: rank 2 did not come within 500 ms"});
  expect_each(outcomes, {2}, ExitCode::kPeerLost, {"all_reduce #2"});
}

TEST_P(NcclFailure, OfAGroupTheRanksAreNamedAsInTheWorld) {
  const auto outcomes = run(4, [](Communicator& world) {
    const auto c = join_within(world, kShort);
    const auto odd_or_even = c->split(c->rank() % 2);
    sum_on_stream(*odd_or_even);
    if (c->rank() == 3) c->barrier();
    if (c->rank() % 2 == 1) sum_on_stream(*odd_or_even, 5);
    c->barrier();
  });
  expect_each(outcomes, {1}, ExitCode::kPeerLost,
              {"all_reduce #2 (sum, f32, 20 bytes) among ranks 1, 3: rank 3 did not come within 500 ms"});
  expect_each(outcomes, {0, 2, 3}, ExitCode::kPeerLost, {"rank 3 did not come"});
}

// Its thread comes, its stream does not.
TEST_P(NcclFailure, ARankThatDoesNotPassItsTensorIsNamed) {
  const auto outcomes = run(3, [](Communicator& world) {
    const auto c = join_within(world, kShort);
    sum_on_stream(*c);
    std::vector<float> values(3);
    const Tensor tensor{values.data(), {3}, DType::kF32};
    WorkerStream stream(1);
    if (c->rank() == 2) stream.enqueue([] { std::this_thread::sleep_for(3 * kShort); });
    if (c->rank() == 0) c->send(tensor, 2, &stream);
    if (c->rank() == 2) c->receive(tensor, 0, &stream);
    stream.synchronize();
    c->check();
    c->barrier();
  });
  expect_each(outcomes, {0, 1, 2}, ExitCode::kPeerLost,
              {"send #1 to rank 2 (f32, 12 bytes) among ranks 0, 2: rank 2 did not come within 500 ms"});
}

TEST_P(NcclFailure, AnErrorInTheBackgroundEndsAll) {
  behaviour_->async_rank = 1;
  behaviour_->fail_result = static_cast<int>(nccl::Result::kRemoteError);
  const auto outcomes = run(3, [](Communicator& world) {
    const auto c = join_within(world);
    sum_on_stream(*c);
  });
  expect_each(
      outcomes, {0, 1, 2}, ExitCode::kPeerLost,
      {"all_reduce #1", "NCCL reports 'remote process exited or there was a network error' (a detail)"});
}

TEST_P(NcclFailure, ACallThatNcclRefusesEndsAll) {
  behaviour_->fail_rank = 1;
  behaviour_->fail_result = static_cast<int>(nccl::Result::kUnhandledCudaError);
  const auto outcomes = run(3, [](Communicator& world) {
    const auto c = join_within(world);
    sum_on_stream(*c);
  });
  const std::string what =
      "all_reduce #1 (sum, f32, 12 bytes) of rank 1: NCCL says 'unhandled cuda error' (Cuda "
      "failure 2 'out of memory')";
  expect_each(outcomes, {1}, ExitCode::kDeviceMemory, {what});
  expect_each(outcomes, {0, 2}, ExitCode::kPeerLost, {what});
}

TEST_P(NcclFailure, AnAbortOrAnErrorStopsEveryGroup) {
  for (const bool abort : {true, false}) {
    const auto outcomes = run(3, [&](Communicator& world) {
      const auto c = join_within(world);
      const auto group = c->split(0);
      sum_on_stream(*group);
      if (c->rank() == 1 && abort) group->abort("the disk is full");
      if (c->rank() == 1) throw Error(ExitCode::kStorage, "the disk is full");
      sum_on_stream(c->rank() == 0 ? *group : *c);
    });
    expect_each(outcomes, {0, 2}, ExitCode::kPeerLost,
                {abort ? "rank 1 stopped: the disk is full" : "rank 1 stopped with an error"});
    expect_each(outcomes, {1}, ExitCode::kStorage, {});
  }
}

// A thread that waits for a stream does not look at the host's communicator; the watchdog does.
TEST_P(NcclFailure, WhatTheHostsCommunicatorKnowsReachesWhoWaitsForADevice) {
  const auto outcomes = run(3, [](Communicator& world) {
    const auto c = join_within(world);
    sum_on_stream(*c);
    if (c->rank() == 1) {
      world.abort("the power is out");
      c->barrier();
    }
    sum_on_stream(*c);
  });
  expect_each(outcomes, {0, 1, 2}, ExitCode::kPeerLost, {"rank 1 stopped: the power is out"});
}

TEST_P(NcclFailure, ConnectingHasATimeout) {
  behaviour_->init_never = true;
  expect_each(run(2, [](Communicator& world) { join_within(world, kShort); }), {0, 1}, ExitCode::kPeerLost,
              {"connecting 2 ranks through NCCL 2.30.7", "did not finish within 500 ms"});
  EXPECT_EQ(behaviour_->aborts, GetParam() == run_as_threads ? 2 : 0);  // in this process
}

TEST_P(NcclFailure, SplittingHasATimeout) {
  behaviour_->split_never = true;
  expect_each(run(2, [](Communicator& world) { join_within(world, kShort)->split(0); }), {0, 1},
              ExitCode::kPeerLost, {"splitting off ranks 0, 1", "did not finish within 500 ms"});
}

// It harms nobody: a rank that has more to do after the last collective goes on.
TEST_P(NcclFailure, LeavingHasATimeout) {
  behaviour_->finalize_never = true;
  expect_fine(run(2, [](Communicator& world) {
    auto c = join_within(world, kShort);
    sum_on_stream(*c);
    if (c->rank() == 0) c.reset();
    world.barrier();
    if (c) c->check();
  }));
}

TEST_P(NcclFailure, WithoutANumberToMeetByAllAreTold) {
  behaviour_->unique_id_result = static_cast<int>(nccl::Result::kSystemError);
  expect_each(run(2, [](Communicator& world) { join_within(world); }), {0, 1}, ExitCode::kPeerLost,
              {"NCCL does not get ready on rank 0"});
}

TEST_P(NcclFailure, NothingWorksAfterAFailure) {
  const auto outcomes = run(2, [](Communicator& world) {
    const auto c = join_within(world);
    if (c->rank() == 0) c->abort("enough");
    EXPECT_THROW(sum_on_stream(*c), Error);
    EXPECT_THROW(c->barrier(), Error);
    EXPECT_THROW(c->split(0), Error);
    EXPECT_THROW(c->check(), Error);
  });
  EXPECT_EQ(outcomes[0].code, ExitCode::kOk) << outcomes[0].message;
  if (outcomes[1].code != ExitCode::kOk)  // it may not have joined yet
    expect_each(outcomes, {1}, ExitCode::kPeerLost, {"rank 0 stopped: enough"});
}

TEST(NcclProcessFailure, AKilledRankIsNoticedLongBeforeTheTimeout) {
  const auto start = Clock::now();
  const auto outcomes = run_as_processes(3, [](Communicator& world) {
    const auto c = join_within(world);
    sum_on_stream(*c);
    if (c->rank() == 1) ::raise(SIGKILL);
    sum_on_stream(*c);
  });
  EXPECT_LT(Clock::now() - start, kSoon);
  expect_each(outcomes, {0, 2}, ExitCode::kPeerLost, {"the process of rank 1 has ended"});
}

// Its thread is somewhere that no abort reaches.
TEST(NcclProcessFailure, AStuckRankIsEndedWithTheStatusOfALostPeer) {
  const auto start = Clock::now();
  const auto outcomes = run_as_processes(2, [](Communicator& world) {
    auto settings = patience(kShort);
    settings.grace = kShort;
    const auto c = join_nccl_world(load_fake_nccl(), gpu_of(world), world, settings);
    if (c->rank() == 1)
      while (true) ::pause();
    sum_on_stream(*c);
  });
  EXPECT_LT(Clock::now() - start, kSoon);
  expect_each(outcomes, {0}, ExitCode::kPeerLost, {"rank 1 did not come within 500 ms"});
  expect_each(outcomes, {1}, ExitCode::kPeerLost, {});
}

TEST(NcclErrors, HaveTheExitStatusOfTheirKind) {
  using nccl::exit_code_of, nccl::Result;
  EXPECT_EQ(exit_code_of(Result::kUnhandledCudaError, "Cuda failure 2 'out of memory'"),
            ExitCode::kDeviceMemory);
  EXPECT_EQ(exit_code_of(Result::kUnhandledCudaError, "Cuda failure 700"), ExitCode::kPeerLost);
  EXPECT_EQ(exit_code_of(Result::kRemoteError, ""), ExitCode::kPeerLost);
  EXPECT_EQ(exit_code_of(Result::kInvalidUsage, "Duplicate GPU detected"), ExitCode::kConfiguration);
  EXPECT_EQ(exit_code_of(Result::kInvalidArgument, ""), ExitCode::kInternal);
}

}  // namespace
}  // namespace recollect
