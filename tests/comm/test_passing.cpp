// Tensors that go from one rank to another: right to the bit and in order whatever carries them, and no side
// waits for ever for one that does not come.
#include <gtest/gtest.h>
#include <signal.h>

#include <numeric>
#include <thread>

#include "comm/call_times.h"
#include "comm/local/passing.h"
#include "comm/planned.h"
#include "tests/comm/check_passing.h"
#include "tests/comm/mesh_blame.h"
#include "tests/comm/ranks.h"
#include "tests/engine/expect_error.h"

namespace recollect::test::passing_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Far longer than these tests may take: whoever waits for it has not noticed the failure.
constexpr auto kLong = 100s;
constexpr auto kQuickly = 30s;

using Runner = std::vector<Outcome> (*)(int, const RankFunction&, std::chrono::milliseconds, std::size_t);

constexpr const char* kNames[] = {"Threads", "Processes", "TcpThreads", "TcpProcesses"};
const auto kRunners =
    ::testing::Values(run_as_threads, run_as_processes, run_over_tcp_as_threads, run_over_tcp_as_processes);
std::string name_of_runner(const ::testing::TestParamInfo<Runner>& info) { return kNames[info.index]; }

class Passing : public ::testing::TestWithParam<Runner> {
 protected:
  std::vector<Outcome> run(int ranks, const RankFunction& function, std::chrono::milliseconds timeout = kLong,
                           std::size_t chunk_bytes = kDefaultChunkBytes) {
    const auto start = Clock::now();
    auto outcomes = GetParam()(ranks, function, timeout, chunk_bytes);
    EXPECT_LT(Clock::now() - start, kQuickly);
    return outcomes;
  }
};
INSTANTIATE_TEST_SUITE_P(Over, Passing, kRunners, name_of_runner);

void send(Communicator& c, int to, int64_t elements = 3) {
  std::vector<float> values(static_cast<std::size_t>(elements), 1.0f);
  c.send({values.data(), {elements}, DType::kF32}, to);
}

void receive(Communicator& c, int from, int64_t elements = 3) {
  std::vector<float> values(static_cast<std::size_t>(elements));
  c.receive({values.data(), {elements}, DType::kF32}, from);
}

void expect_lost(const Outcome& outcome, const std::vector<std::string>& mentions) {
  EXPECT_EQ(outcome.code, ExitCode::kPeerLost) << outcome.message;
  for (const std::string& text : mentions)
    EXPECT_NE(outcome.message.find(text), std::string::npos) << outcome.message << " does not say: " << text;
}

TEST_P(Passing, GetsEveryTensorRight) {
  for (const int ranks : {2, 3, 4})  // chunks of a page: several pieces already for a few thousand bytes
    expect_fine(run(
        ranks,
        [](Communicator& c) {
          check_passing(c, {0, 1, 61, 1021, 10007});
        },
        kLong, 4096));
}

// More than staging memory and sockets hold, and not as much to everybody.
TEST_P(Passing, LargeTensorsInManyPieces) {
  const auto content = [](int from, int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    std::iota(values.begin(), values.end(), static_cast<float>(1000 * from));
    return values;
  };
  expect_fine(run(3, [&](Communicator& c) {
    const int next = (c.rank() + 1) % 3, before = (c.rank() + 2) % 3;
    const auto count_for = [](int rank) { return 600'011 + 100'000 * int64_t{rank}; };
    std::vector<float> out = content(c.rank(), count_for(next)),
                       in(static_cast<std::size_t>(count_for(c.rank())));
    const Tensor sent{out.data(), {count_for(next)}, DType::kF32},
        got{in.data(), {count_for(c.rank())}, DType::kF32};
    c.exchange(sent, next, got, before);
    EXPECT_EQ(in, content(before, count_for(c.rank())));
    std::fill(in.begin(), in.end(), 0.0f);
    if (c.rank() == 0) c.send(sent, 1);
    if (c.rank() == 1) c.receive(got, 0);
    if (c.rank() == 1) {
      EXPECT_EQ(in, content(0, count_for(1)));
    }
  }));
}

TEST_P(Passing, InGroupsOfTheWorld) {
  expect_fine(run(4, [](Communicator& c) {
    const auto pair = c.split(c.rank() % 2), all = c.split(0);
    check_passing(*pair, {61});
    check_passing(*all, {61});
    check_passing(c, {61});
  }));
}

TEST_P(Passing, OneCommunicatorForEachStream) {
  expect_fine(run(3, [](Communicator& c) {
    const auto other = c.split(0);
    Outcome outcome;
    std::jthread stream([&] {
      try {
        check_passing(*other, {61, 5003});
      } catch (const Error& error) {
        outcome = {error.code(), error.what()};
      }
    });
    check_passing(c, {5003, 61});
    stream.join();
    if (outcome.code != ExitCode::kOk) throw Error(outcome.code, outcome.message);
  }));
}

TEST_P(Passing, OtherSizesOrDtypesAreToldToBoth) {
  const std::vector<std::pair<RankFunction, std::string>> odd_ones = {
      {[](Communicator& c) { receive(c, 0, 4); }, "rank 2: receive #2 from rank 0 (f32, 16 bytes)"},
      {[](Communicator& c) { receive(c, 0, 0); }, "rank 2: receive #2 from rank 0 (f32, 0 bytes)"},
      {[](Communicator& c) {
         int32_t values[3];
         c.receive({values, {3}, DType::kI32}, 0);
       },
       "rank 2: receive #2 from rank 0 (i32, 12 bytes)"}};
  for (const auto& [odd_one, text] : odd_ones) {
    const auto outcomes = run(3, [&](Communicator& c) {
      if (c.rank() == 0) send(c, 2);
      if (c.rank() == 2) receive(c, 0);
      if (c.rank() == 0) send(c, 2);
      if (c.rank() == 2) odd_one(c);
    });
    EXPECT_EQ(outcomes[1].code, ExitCode::kOk) << outcomes[1].message;
    for (const int rank : {0, 2}) {
      EXPECT_EQ(outcomes[rank].code, ExitCode::kRanksDisagree) << outcomes[rank].message;
      for (const std::string& said : {std::string("rank 0: send #2 to rank 2 (f32, 12 bytes)"), text})
        EXPECT_NE(outcomes[rank].message.find(said), std::string::npos) << outcomes[rank].message;
    }
  }
}

TEST_P(Passing, WhoDoesNotComeIsNamed) {
  const auto wait = [](Communicator& c) {
    while (!c.stop_reason()) std::this_thread::sleep_for(5ms);
  };
  const auto sent = run(
      2,
      [&](Communicator& c) {
        c.rank() == 0 ? send(c, 1) : receive(c, 0);
        c.rank() == 0 ? send(c, 1) : wait(c);
      },
      300ms);
  expect_lost(sent[0],
              {"send #2 to rank 1", "rank 1 did not come within 300 ms", "last seen there in send #1"});
  const auto received = run(
      2, [&](Communicator& c) { c.rank() == 0 ? receive(c, 1) : wait(c); }, 300ms);
  expect_lost(received[0],
              {"receive #1 from rank 1", "rank 1 did not come within 300 ms", "not seen there before"});
}

TEST_P(Passing, RanksThatAllSendFirstWaitForEver) {
  for (const Outcome& outcome : run(
           3,
           [](Communicator& c) {
             send(c, (c.rank() + 1) % 3);
             receive(c, (c.rank() + 2) % 3);
           },
           300ms))
    EXPECT_EQ(outcome.code, ExitCode::kPeerLost) << outcome.message;
}

// The last rank is stuck. Each waits for the next one, and the first, in a collective, for all that wait. All
// these waits end in the same moment.
TEST_P(Passing, WhoIsStuckIsBlamedByThoseWhoWaitForOthers) {
  constexpr int kStuck = 8;
  const auto outcomes = run(
      kStuck + 1,
      [](Communicator& c) {
        const auto others = c.split(c.rank() == kStuck);
        c.barrier();
        if (c.rank() == kStuck) {
          while (!c.stop_reason()) std::this_thread::sleep_for(5ms);
          c.barrier();
        }
        if (c.rank() > 0) c.rank() % 2 == 0 ? send(c, c.rank() + 1) : receive(c, c.rank() + 1);
        others->barrier();
      },
      kBlameTimeout);
  for (int rank = 0; rank < kStuck; ++rank)
    EXPECT_EQ(accused_in(outcomes[static_cast<std::size_t>(rank)].message), std::set{kStuck})
        << outcomes[static_cast<std::size_t>(rank)].message;
}

TEST_P(Passing, ARankThatStopsOrLeavesStopsTheOthers) {
  for (const bool aborts : {true, false}) {
    const auto outcomes = run(3, [&](Communicator& c) {
      if (c.rank() == 1 && aborts) c.abort("the disk is full");
      if (c.rank() == 1) throw Error(ExitCode::kStorage, "the disk is full");
      c.rank() == 0 ? receive(c, 1, 1 << 20) : send(c, 1, 1 << 20);
    });
    for (const int rank : {0, 2}) expect_lost(outcomes[rank], {"rank 1"});
    EXPECT_EQ(outcomes[1].code, ExitCode::kStorage);
  }
}

TEST_P(Passing, NothingWorksAfterAFailure) {
  const auto outcomes = run(2, [](Communicator& c) {
    EXPECT_THROW(c.rank() == 0 ? send(c, 1, 4) : receive(c, 0, 3), Error);
    EXPECT_THROW(c.barrier(), Error);
    c.rank() == 0 ? send(c, 1) : receive(c, 0);
  });
  for (const Outcome& outcome : outcomes) expect_lost(outcome, {});
}

TEST_P(Passing, PeersThatAreNoneAreErrors) {
  expect_fine(run(2, [](Communicator& c) {
    float values[4] = {1, 2, 3, 4};
    const Tensor two{values, {2}, DType::kF32}, more{values + 2, {2}, DType::kF32},
        one{values + 2, {1}, DType::kF32};
    const int self = c.rank();
    EXPECT_THROW(c.send(two, 2), Error);
    EXPECT_THROW(c.receive(two, 2), Error);
    EXPECT_THROW(c.send(two, -1), Error);
    EXPECT_THROW(c.send(two, self), Error);
    EXPECT_THROW(c.receive(two, self), Error);
    EXPECT_THROW(c.exchange(two, self, more, 1 - self), Error);
    EXPECT_THROW(c.exchange(two, self, one, self), Error);
    c.exchange(two, self, more, self);
    EXPECT_EQ(values[3], 2.0f);
    self == 0 ? send(c, 1) : receive(c, 0);  // nothing was sent, so the group still works
  }));
}

TEST_P(Passing, AHeldPeerIsWaitedForAndNamed) {
  expect_fine(run(3, [](Communicator& c) {
    c.barrier();
    const CallTimes before = *c.times();
    const auto start = Clock::now();
    if (c.rank() == 2) std::this_thread::sleep_for(400ms);
    if (c.rank() == 0) receive(c, 2, 100'000);
    if (c.rank() == 2) send(c, 0, 100'000);
    const double whole = std::chrono::duration<double>(Clock::now() - start).count();
    const double waited = c.times()->waiting() - before.waiting(),
                 moved = c.times()->transfer() - before.transfer();
    if (c.rank() == 0) {
      EXPECT_GT(waited, 0.2);
      EXPECT_EQ(c.times()->latest(), 2);
      EXPECT_GT(c.times()->waiting_by_rank()[2] - before.waiting_by_rank()[2], 0.2);
    } else {
      EXPECT_LT(waited, 0.2);
    }
    EXPECT_LE(waited + moved, whole);
  }));
}

class PassingProcesses : public ::testing::TestWithParam<Runner> {};
INSTANTIATE_TEST_SUITE_P(Over, PassingProcesses,
                         ::testing::Values(run_as_processes, run_over_tcp_as_processes),
                         [](const auto& info) { return info.index == 0 ? "SharedMemory" : "Tcp"; });

// Between tensors, and in the middle of one.
TEST_P(PassingProcesses, ADeadPeerIsNoticedLongBeforeTheTimeout) {
  for (const int delay : {0, 1, 2, 5}) {
    const auto start = Clock::now();
    const auto outcomes = GetParam()(
        3,
        [&](Communicator& c) {
          if (c.rank() == 1 && delay == 0) ::raise(SIGKILL);
          std::jthread killer;
          if (c.rank() == 1)
            killer = std::jthread([&] {
              std::this_thread::sleep_for(std::chrono::milliseconds(delay));
              ::raise(SIGKILL);
            });
          while (true) {
            if (c.rank() == 0) send(c, 1, 1 << 20);
            if (c.rank() == 1) receive(c, 0, 1 << 20);
            if (c.rank() == 1) send(c, 2, 1 << 20);
            if (c.rank() == 2) receive(c, 1, 1 << 20);
          }
        },
        kLong, kDefaultChunkBytes);
    EXPECT_LT(Clock::now() - start, kQuickly);
    for (const int rank : {0, 2}) expect_lost(outcomes[rank], {"the process of rank 1 has ended"});
    EXPECT_EQ(static_cast<int>(outcomes[1].code), 128 + SIGKILL);
  }
}

// Others that give up in the same moment follow the waits through this one.
TEST(PassingAlone, WhoGivesUpStillSaysForWhomItWaited) {
  const auto segment = local::Segment::make_private(2, 4096);
  CallTimes times({0, 1});
  float values[3] = {};
  const Parcel in{{values, {3}, DType::kF32}, 0}, out{{values, {3}, DType::kF32}, 1};
  const auto receive_one = [&](uint64_t number, std::chrono::milliseconds timeout) {
    local::Passing(*segment, segment->root(), 1, timeout, times)
        .run({}, {}, in, receive_call(in, number, 0), 0);
  };
  {
    std::jthread sender([&] {
      CallTimes its_times({0, 1});
      std::this_thread::sleep_for(20ms);
      local::Passing(*segment, segment->root(), 0, kLong, its_times)
          .run(out, send_call(out, 1, 1), {}, {}, 0);
    });
    receive_one(1, kLong);
  }
  EXPECT_TRUE(segment->waits().empty()) << "who has got its tensor waits for nobody";
  expect_error(ExitCode::kPeerLost, {"rank 0 did not come within 20 ms"}, [&] { receive_one(2, 20ms); });
  ASSERT_EQ(segment->waits().size(), 1u);
  EXPECT_EQ(segment->waits()[0].rank, 1);
  EXPECT_EQ(segment->waits()[0].missing, std::vector{0});
}

TEST(PassingAlone, IsACopy) {
  const auto self = make_self_communicator();
  check_passing(*self, {0, 7});
  float values[2] = {};
  expect_error(ExitCode::kInternal, {"rank 0", "to itself", "wait for ever"}, [&] {
    self->send({values, {2}, DType::kF32}, 0);
  });
  expect_error(ExitCode::kInternal, {"rank 1 is none of a group of 1 ranks"}, [&] {
    self->receive({values, {2}, DType::kF32}, 1);
  });
}

TEST(PassingAlone, WhoIsOnlyPlannedRefuses) {
  const auto planned = make_planned_communicator(1, 4, 0);
  expect_error(ExitCode::kInternal, {"send on rank 1 of 4, which are only planned"},
               [&] { planned->send({}, 2); });
  expect_error(ExitCode::kInternal, {"receive on rank 1 of 4"}, [&] { planned->receive({}, 2); });
}

}  // namespace
}  // namespace recollect::test::passing_test
