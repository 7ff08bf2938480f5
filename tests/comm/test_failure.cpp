// One rank's failure is everyone's failure, quickly, and says what happened.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "comm/local.h"
#include "tests/comm/ranks.h"

namespace recollect {
namespace {

using namespace std::chrono_literals;
using namespace test;
using Clock = std::chrono::steady_clock;

// Far longer than these tests may take, on a busy machine and under a sanitizer too: whoever waits for it has
// not noticed the failure.
constexpr auto kLong = 100s;
constexpr auto kQuickly = 30s;

void sum(Communicator& c, int64_t elements = 3) {
  std::vector<float> values(static_cast<std::size_t>(elements), 1.0f);
  c.all_reduce({values.data(), {elements}, DType::kF32}, ReduceOp::kSum);
}

void expect_lost(const Outcome& outcome, const std::vector<std::string>& mentions) {
  EXPECT_EQ(outcome.code, ExitCode::kPeerLost) << outcome.message;
  for (const std::string& text : mentions)
    EXPECT_NE(outcome.message.find(text), std::string::npos) << outcome.message << " does not say: " << text;
}

using Runner = std::vector<Outcome> (*)(int, const RankFunction&, std::chrono::milliseconds, std::size_t);

class Failure : public ::testing::TestWithParam<Runner> {
 protected:
  std::vector<Outcome> run(int ranks, const RankFunction& function,
                           std::chrono::milliseconds timeout = kLong) {
    const auto start = Clock::now();
    auto outcomes = GetParam()(ranks, function, timeout, kDefaultChunkBytes);
    EXPECT_LT(Clock::now() - start, kQuickly);
    return outcomes;
  }
};
std::string name_of_runner(const ::testing::TestParamInfo<Runner>& info) {
  return info.index == 0 ? "Threads" : "Processes";
}
INSTANTIATE_TEST_SUITE_P(Local, Failure, ::testing::Values(run_as_threads, run_as_processes), name_of_runner);
INSTANTIATE_TEST_SUITE_P(Tcp, Failure, ::testing::Values(run_over_tcp_as_threads, run_over_tcp_as_processes),
                         name_of_runner);

class ProcessFailure : public ::testing::TestWithParam<Runner> {};
INSTANTIATE_TEST_SUITE_P(Over, ProcessFailure, ::testing::Values(run_as_processes, run_over_tcp_as_processes),
                         [](const auto& info) { return info.index == 0 ? "SharedMemory" : "Tcp"; });

TEST_P(Failure, DifferentCallsAreToldToAll) {
  const std::vector<std::pair<RankFunction, std::string>> odd_ones = {
      {[](Communicator& c) { sum(c, 4); }, "all_reduce #2 (sum, f32, 16 bytes)"},
      {[](Communicator& c) { c.barrier(); }, "barrier #2"},
      {[](Communicator& c) {
         double values[3] = {};
         c.all_reduce({values, {3}, DType::kF64}, ReduceOp::kSum);
       },
       "all_reduce #2 (sum, f64, 24 bytes)"},
      {[](Communicator& c) {
         float values[3] = {};
         c.all_reduce({values, {3}, DType::kF32}, ReduceOp::kMax);
       },
       "all_reduce #2 (max, f32, 12 bytes)"},
      {[](Communicator& c) {
         float values[3] = {};
         c.broadcast({values, {3}, DType::kF32}, 1);
       },
       "broadcast #2 (from rank 1, f32, 12 bytes)"},
      {[](Communicator& c) { c.split(0); }, "split #2"},
  };
  for (const auto& [odd_one, text] : odd_ones) {
    const auto outcomes = run(3, [&](Communicator& c) {
      sum(c);
      c.rank() == 1 ? odd_one(c) : sum(c);
    });
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(outcome.code, ExitCode::kRanksDisagree);
      EXPECT_NE(outcome.message.find("ranks 0, 2: all_reduce #2 (sum, f32, 12 bytes)"), std::string::npos)
          << outcome.message;
      EXPECT_NE(outcome.message.find("rank 1: " + text), std::string::npos) << outcome.message;
    }
  }
}

// Whose data is on its way before they know, and is more than the sockets hold.
TEST_P(Failure, DifferentCallsOfMuchDataAreToldToAll) {
  for (const int64_t elements : {3'000, 50'000, 5'000'000}) {
    const auto outcomes = run(3, [&](Communicator& c) {
      std::vector<float> part(static_cast<std::size_t>(elements)), whole(3 * part.size());
      const Tensor one{part.data(), {elements}, DType::kF32}, all{whole.data(), {3 * elements}, DType::kF32};
      c.barrier();
      if (c.rank() == 0) c.all_gather(one, all);
      if (c.rank() == 1) c.reduce_scatter(all, one);
      if (c.rank() == 2) c.broadcast(all, 2);
    });
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(outcome.code, ExitCode::kRanksDisagree) << outcome.message;
      for (const char* text : {"rank 0: all_gather #2", "rank 1: reduce_scatter #2", "rank 2: broadcast #2"})
        EXPECT_NE(outcome.message.find(text), std::string::npos) << outcome.message;
    }
  }
}

TEST_P(Failure, ARankThatDoesNotComeIsNamed) {
  const auto outcomes = run(
      4,
      [](Communicator& c) {
        sum(c);
        if (c.rank() == 2) std::this_thread::sleep_for(1500ms);
        sum(c);
      },
      300ms);
  for (const int rank : {0, 1, 3})
    expect_lost(outcomes[rank], {"all_reduce #2", "rank 2 did not come within 300 ms"});
  expect_lost(outcomes[2], {});  // late, it must not go on alone
}

TEST_P(Failure, ARankThatLeavesWithAnErrorStopsTheOthers) {
  const auto outcomes = run(3, [](Communicator& c) {
    sum(c);
    if (c.rank() == 1) throw Error(ExitCode::kNumerics, "loss is NaN");
    sum(c, 1 << 20);
  });
  for (const int rank : {0, 2}) expect_lost(outcomes[rank], {"rank 1"});
  EXPECT_EQ(outcomes[1].code, ExitCode::kNumerics);
}

TEST_P(Failure, AnAbortStopsEveryGroupOfTheFamily) {
  const auto outcomes = run(4, [](Communicator& c) {
    const auto pair = c.split(c.rank() / 2);  // ranks 0 and 1, ranks 2 and 3
    if (c.rank() == 0) {
      std::this_thread::sleep_for(100ms);
      c.abort("the disk is full");
      std::this_thread::sleep_for(500ms);
      return;
    }
    if (c.rank() == 3) c.barrier();
    sum(*pair);
  });
  EXPECT_EQ(outcomes[0].code, ExitCode::kOk);
  for (const int rank : {1, 2, 3}) expect_lost(outcomes[rank], {"rank 0", "the disk is full"});
}

TEST_P(Failure, NothingWorksAfterAFailure) {
  const auto outcomes = run(
      2,
      [](Communicator& c) {
        if (c.rank() == 0) {
          EXPECT_THROW(sum(c), Error);
          std::this_thread::sleep_for(100ms);
        } else {
          EXPECT_THROW(c.barrier(), Error);
        }
        EXPECT_THROW(c.split(0), Error);
        sum(c);
      },
      kLong);
  for (const Outcome& outcome : outcomes) expect_lost(outcome, {});
}

// The first that knows stops the others, some of which may still wait for a third one's record of its call.
TEST_P(Failure, DifferentCallsAreToldToAllThoughOneAbortsAtOnce) {
  for (int times = 0; times < 12; ++times) {
    const auto outcomes = run(4, [](Communicator& c) {
      sum(c);
      try {
        c.rank() == 1 ? c.barrier() : sum(c);
      } catch (const Error& error) {
        c.abort(error.what());
        throw;
      }
    });
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(outcome.code, ExitCode::kRanksDisagree) << outcome.message;
      EXPECT_NE(outcome.message.find("rank 1: barrier #2"), std::string::npos) << outcome.message;
    }
  }
}

TEST_P(ProcessFailure, AKilledRankIsNoticedLongBeforeTheTimeout) {
  const auto start = Clock::now();
  const auto outcomes = GetParam()(
      4,
      [](Communicator& c) {
        for (int i = 0; i < 100000; ++i) {
          if (c.rank() == 1 && i == 50) ::raise(SIGKILL);
          sum(c, i % 2 ? 1 : 300000);
        }
      },
      kLong, kDefaultChunkBytes);
  EXPECT_LT(Clock::now() - start, kQuickly);
  for (const int rank : {0, 2, 3}) {
    expect_lost(outcomes[rank], {"the process of rank 1 has ended"});
    // What the killed process had sent of the call before may be lost with its connections.
    const std::string& said = outcomes[rank].message;
    EXPECT_TRUE(said.starts_with("all_reduce #51 ") || said.starts_with("all_reduce #50 ")) << said;
  }
  EXPECT_EQ(static_cast<int>(outcomes[1].code), 128 + SIGKILL);
}

// It says that all is well, and has not done what the others wait for.
TEST_P(ProcessFailure, ARankThatExitsWithZeroIsLostAllTheSame) {
  const auto start = Clock::now();
  const auto outcomes = GetParam()(
      2,
      [](Communicator& c) {
        for (int i = 0; i < 100000; ++i) {
          if (c.rank() == 1 && i == 50) ::_exit(0);
          sum(c, 1);
        }
      },
      kLong, kDefaultChunkBytes);
  EXPECT_LT(Clock::now() - start, kQuickly);
  expect_lost(outcomes[0], {"the process of rank 1 has ended"});
}

// In a loop, so that death strikes inside collectives and barriers too, not only between them.
TEST_P(ProcessFailure, ARankKilledAnywhereIsNoticed) {
  for (int delay = 0; delay < 12; ++delay) {
    const auto start = Clock::now();
    const auto outcomes = GetParam()(
        3,
        [&](Communicator& c) {
          if (c.rank() == 2) {
            std::thread([&] {
              std::this_thread::sleep_for(std::chrono::microseconds(2000 + 177 * delay));
              ::kill(::getpid(), SIGKILL);
            }).detach();
          }
          while (true) sum(c, 100000);
        },
        kLong, kDefaultChunkBytes);
    EXPECT_LT(Clock::now() - start, kQuickly);
    for (const int rank : {0, 1}) expect_lost(outcomes[rank], {"rank 2"});
  }
}

TEST(ThreadFailure, ARankThatNeverJoinsIsNamed) {
  LocalGroup group(3, 300ms);
  std::atomic<int> named = 0;
  const auto wait = [&](int rank) {
    const auto c = group.join(rank);
    try {
      c->barrier();
    } catch (const Error& error) {
      const bool right = error.code() == ExitCode::kPeerLost &&
                         std::string(error.what()).find("rank 1 did not come") != std::string::npos;
      if (right) ++named;
    }
  };
  std::thread other([&] { wait(2); });
  wait(0);
  other.join();
  EXPECT_EQ(named, 2);
}

TEST(ThreadFailure, ARankJoinsOnce) {
  LocalGroup group(2);
  const auto c = group.join(1);
  EXPECT_THROW(group.join(1), Error);
  EXPECT_THROW(group.join(2), Error);
}

}  // namespace
}  // namespace recollect
