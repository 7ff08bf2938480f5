// The watchdog says who is missing, in which call, and lets nobody wait for ever. Its time is told to it
// here: no test waits for a timeout.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <condition_variable>
#include <thread>

#include "comm/device/watchdog.h"
#include "tests/comm/ranks.h"

namespace recollect {
namespace {

using namespace std::chrono_literals;
using namespace test;
using device::ProgressBoard;
using device::Watchdog;
using Clock = Watchdog::Clock;

constexpr uint64_t kKey = 77;

// A group whose progress the test makes up.
class MadeUp final : public device::Watched {
 public:
  explicit MadeUp(std::vector<int> ranks, uint64_t key = kKey) : key_(key), ranks_(std::move(ranks)) {}

  std::atomic<uint32_t> now = 0;
  std::atomic<bool> broken = false, recorded = false;

  uint64_t key() const override { return key_; }
  const std::vector<int>& ranks() const override { return ranks_; }
  uint32_t state() const override { return now; }
  bool replays() const override { return recorded; }
  std::string describe(uint32_t state) const override { return "all_reduce #" + std::to_string(state / 2); }
  std::string asynchronous_error() override { return broken ? "the cable is out" : ""; }

 private:
  const uint64_t key_;
  const std::vector<int> ranks_;
};

constexpr uint32_t inside(uint32_t call) { return 2 * call; }
constexpr uint32_t after(uint32_t call) { return 2 * call + 1; }

// One rank with a group of all ranks, and a clock of its own. Looks when it is told to.
struct Rank {
  explicit Rank(Communicator& world, uint64_t node = 1, int size = 0)
      : world(world), board(world, node), group(std::make_shared<MadeUp>(all(size ? size : world.size()))) {
    dog = std::make_unique<Watchdog>(
        board, Watchdog::Settings{.timeout = 1000ms,
                                  .grace = 500ms,
                                  .abort = [this](const std::string&) { ++aborts; },
                                  .end_process = [this](const std::string&) { ++ends; }});
    dog->add(group);
    look();
  }

  static std::vector<int> all(int size) {
    std::vector<int> ranks;
    for (int r = 0; r < size; ++r) ranks.push_back(r);
    return ranks;
  }
  // Everybody has published what he is at before anybody judges.
  void look_together(Clock::duration later = 0ms) {
    now += later;
    world.barrier();
    dog->look(now);
    world.barrier();
  }
  void look(Clock::duration later = 0ms) { dog->look(now += later); }
  std::string reason() {
    try {
      dog->throw_if_failed();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kPeerLost);
      return error.what();
    }
    return {};
  }

  Communicator& world;
  ProgressBoard board;
  std::shared_ptr<MadeUp> group;
  std::atomic<int> aborts = 0, ends = 0;
  std::unique_ptr<Watchdog> dog;
  Clock::time_point now = Clock::now();
};

void expect_says(const std::string& text, const std::vector<std::string>& mentions) {
  for (const std::string& mention : mentions)
    EXPECT_NE(text.find(mention), std::string::npos) << "'" << text << "' does not say: " << mention;
}

TEST(Watchdog, NamesTheCallAndWhoIsMissing) {
  expect_fine(run_as_threads(4, [](Communicator& world) {
    Rank rank(world);
    rank.group->now = world.rank() == 2 ? after(16) : inside(17);
    rank.look_together();
    rank.look_together();
    rank.look_together(999ms);
    EXPECT_FALSE(rank.dog->has_failed());
    world.barrier();
    if (world.rank() == 0) rank.look(1ms);
    world.barrier();
    rank.look();
    expect_says(rank.reason(), {"all_reduce #17 among ranks 0, 1, 2, 3: rank 2 did not come within 1 s",
                                "of rank " + std::to_string(world.rank())});
  }));
}

// Two data ranks of two tensor ranks each. Whoever looks, in whatever group it waits, names the same rank.
TEST(Watchdog, InAMeshWhoWaitsForNobodyIsNamed) {
  for (int stuck = 0; stuck < 4; ++stuck)
    expect_fine(run_as_threads(4, [stuck](Communicator& world) {
      Rank rank(world);
      const int mine = world.rank(), row = mine / 2, column = mine % 2;
      const auto tensor = std::make_shared<MadeUp>(std::vector{2 * row, 2 * row + 1}, 10 + row);
      const auto data = std::make_shared<MadeUp>(std::vector{column, column + 2}, 20 + column);
      rank.dog->add(tensor);
      rank.dog->add(data);
      // The stuck rank was about to sum over its tensor group. Its tensor peer waits for it there, the other
      // tensor group has passed that and waits for these two over data groups.
      tensor->now = mine == stuck ? after(4) : row == stuck / 2 ? inside(5) : after(5);
      data->now = row == stuck / 2 ? after(2) : inside(3);
      rank.look_together();
      rank.look_together();
      const int first = (stuck + 2) % 4;  // far from the cause
      world.barrier();
      if (mine == (first ^ 1)) rank.look(1s);
      world.barrier();
      rank.look();
      expect_says(rank.reason(), {"rank " + std::to_string(stuck) + " did not come within 1 s"});
      for (int other = 0; other < 4; ++other)
        if (other != stuck) {
          EXPECT_EQ(rank.reason().find("rank " + std::to_string(other) + " did not come"), std::string::npos);
        }
    }));
}

TEST(Watchdog, ProgressIsNoReasonToFailHoweverSlow) {
  expect_fine(run_as_threads(2, [](Communicator& world) {
    Rank rank(world);
    for (uint32_t call = 1; call < 20; ++call) {
      rank.group->now = inside(call);
      rank.look_together(900ms);
      if (call % 2) rank.group->now = after(call);
      rank.look_together(900ms);
    }
    rank.group->now = after(20);
    for (int i = 0; i < 5; ++i) rank.look_together(10s);  // nothing to do is no failure either
    EXPECT_FALSE(rank.dog->has_failed());
  }));
}

TEST(Watchdog, ACallThatAllHaveComeToAndNobodyFinishes) {
  expect_fine(run_as_threads(2, [](Communicator& world) {
    Rank rank(world);
    rank.group->now = inside(3);
    rank.look_together();
    rank.look_together();
    if (world.rank() == 1) rank.look(1s);
    world.barrier();
    rank.look();
    expect_says(rank.reason(), {"all_reduce #3 among ranks 0, 1: all have come, but it did not finish"});
  }));
}

// Replayed calls have the numbers that they had when they were recorded.
TEST(Watchdog, ReplayedCallsAreToldApartByTheRound) {
  expect_fine(run_as_threads(3, [](Communicator& world) {
    Rank rank(world);
    rank.group->recorded = true;
    for (int replay = 0; replay < 3; ++replay) {
      for (uint32_t call = 5; call <= 6; ++call) {
        rank.group->now = inside(call);
        rank.look_together(800ms);
        rank.group->now = after(call);
        rank.look_together(800ms);
      }
      rank.dog->completed();
      rank.look_together(100s);
    }
    // Rank 1 does not start the next replay: what it last did is call 6.
    if (world.rank() != 1) rank.group->now = inside(5);
    rank.look_together();
    rank.look_together();
    if (world.rank() == 2) rank.look(1s);
    world.barrier();
    rank.look();
    expect_says(rank.reason(), {"all_reduce #5 among ranks 0, 1, 2: rank 1 did not come"});
  }));
}

TEST(Watchdog, TheOnlyCallOfAReplayIsNewEveryTime) {
  expect_fine(run_as_threads(1, [](Communicator& world) {
    Rank rank(world);
    rank.group->recorded = true;
    for (int replay = 0; replay < 10; ++replay) {
      rank.group->now = inside(5);
      rank.look(900ms);
      rank.group->now = after(5);
      rank.dog->completed();
      rank.look(900ms);
      EXPECT_EQ(rank.board.progress(0, kKey), (device::Progress{static_cast<uint32_t>(replay + 1), 0}));
    }
    EXPECT_FALSE(rank.dog->has_failed());
  }));
}

// Where nothing is replayed the numbers only grow, and how often a rank has waited for its streams is its own
// affair.
TEST(Watchdog, WithoutReplaysRoundsDoNotCount) {
  expect_fine(run_as_threads(3, [](Communicator& world) {
    Rank rank(world);
    for (int i = 0; i < world.rank(); ++i) rank.dog->completed();
    rank.group->now = world.rank() == 1 ? after(8) : inside(9);
    rank.look_together();
    rank.look_together();
    rank.look_together(1s);
    if (world.rank() != 1)
      expect_says(rank.reason(), {"all_reduce #9 among ranks 0, 1, 2: rank 1 did not come"});
    world.barrier();
  }));
}

TEST(Watchdog, AnErrorInTheBackgroundEndsAll) {
  expect_fine(run_as_threads(3, [](Communicator& world) {
    Rank rank(world);
    rank.group->now = inside(4);
    if (world.rank() == 1) {
      rank.group->broken = true;
      rank.look();
    }
    world.barrier();
    rank.look();
    expect_says(rank.reason(), {"all_reduce #4 among ranks 0, 1, 2: the cable is out"});
  }));
}

TEST(Watchdog, WhoStopsTellsWhy) {
  expect_fine(run_as_threads(3, [](Communicator& world) {
    Rank rank(world);
    if (world.rank() == 2) rank.dog->fail("rank 2 stopped: the disk is full");
    world.barrier();
    rank.look();
    expect_says(rank.reason(), {"rank 2 stopped: the disk is full"});
    rank.dog->fail("something later");
    expect_says(rank.reason(), {"rank 2 stopped: the disk is full"});
  }));
}

TEST(Watchdog, AsksElsewhereToo) {
  expect_fine(run_as_threads(1, [](Communicator& world) {
    ProgressBoard board(world);
    std::optional<std::string> why;
    Watchdog dog(board, {.timeout = 1000ms,
                         .abort = [](const std::string&) {},
                         .stop_reason = [&] { return why; },
                         .end_process = [](const std::string&) {}});
    dog.look(Clock::now());
    EXPECT_FALSE(dog.has_failed());
    why = "another node burns";
    dog.look(Clock::now());
    EXPECT_TRUE(dog.has_failed());
    EXPECT_EQ(board.stop_reason(), why);
  }));
}

TEST(Watchdog, WhoLeavesIsNotWaitedFor) {
  expect_fine(run_as_threads(3, [](Communicator& world) {
    Rank rank(world);
    rank.group->now = world.rank() == 0 ? after(6) : inside(7);
    rank.look_together();
    if (world.rank() == 0) rank.board.leave();
    rank.look_together();
    if (world.rank() == 0) return world.barrier();
    expect_says(rank.reason(), {"all_reduce #7 among ranks 0, 1, 2: rank 0 has left"});
    world.barrier();
  }));
}

TEST(Watchdog, RanksOfOtherNodesAreUnknown) {
  expect_fine(run_as_threads(4, [](Communicator& world) {
    Rank rank(world, static_cast<uint64_t>(world.rank() / 2));
    EXPECT_EQ(rank.board.sees(0), world.rank() < 2);
    rank.group->now = world.rank() == 1 ? after(1) : inside(2);
    rank.look_together();
    rank.look_together();
    rank.look_together(1s);
    if (world.rank() == 0)
      expect_says(rank.reason(), {"rank 1 did not come", "how far ranks 2, 3 came is not known here"});
    if (world.rank() == 3)
      expect_says(rank.reason(), {"it did not finish", "how far ranks 0, 1 came is not known here"});
    world.barrier();
  }));
}

TEST(Watchdog, ADeadProcessIsNoticedAtOnce) {
  const auto outcomes = run_as_processes(3, [](Communicator& world) {
    Rank rank(world);
    world.barrier();
    if (world.rank() == 1) ::raise(SIGKILL);
    const auto deadline = Clock::now() + 30s;
    while (!rank.dog->has_failed() && Clock::now() < deadline) {
      rank.look();  // its clock stands still: no time-out can help
      std::this_thread::sleep_for(1ms);
    }
    rank.dog->throw_if_failed();
  });
  EXPECT_EQ(static_cast<int>(outcomes[1].code), 128 + SIGKILL);
  for (const std::size_t rank : {0u, 2u}) {
    EXPECT_EQ(outcomes[rank].code, ExitCode::kPeerLost);
    expect_says(outcomes[rank].message, {"the process of rank 1 has ended"});
  }
}

TEST(Watchdog, AFailureIsAbortedAndWhoIgnoresItIsEnded) {
  expect_fine(run_as_threads(1, [](Communicator& world) {
    Rank rank(world);
    rank.group->broken = true;
    rank.look();
    const auto deadline = Clock::now() + 30s;
    while (rank.aborts == 0 && Clock::now() < deadline) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(rank.aborts, 1);
    rank.look(499ms);
    EXPECT_EQ(rank.ends, 0);
    rank.look(1ms);
    rank.look(1s);
    EXPECT_EQ(rank.ends, 1);
  }));
}

TEST(Watchdog, WhoTakesNoteIsNotEnded) {
  for (const bool by_itself : {true, false})
    expect_fine(run_as_threads(1, [&](Communicator& world) {
      Rank rank(world);
      rank.group->broken = !by_itself;
      if (by_itself) rank.dog->fail("no more");
      rank.look();
      if (!by_itself) {
        EXPECT_THROW(rank.dog->throw_if_failed(), Error);
      }
      rank.look(100s);
      rank.dog.reset();
      EXPECT_EQ(rank.ends, 0);
      EXPECT_EQ(rank.aborts, 1);
    }));
}

// Aborting waits for the very thing that is stuck: the watchdog does not wait with it.
TEST(Watchdog, AnAbortThatHangsDelaysNobody) {
  expect_fine(run_as_threads(1, [](Communicator& world) {
    std::mutex mutex;
    std::condition_variable wake;
    bool released = false;
    const auto hang = [&](const std::string&) {
      std::unique_lock lock(mutex);
      wake.wait(lock, [&] { return released; });
    };
    const auto release = [&](const std::string&) {
      std::lock_guard lock(mutex);
      released = true;
      wake.notify_all();
    };
    for (const bool noted : {false, true}) {
      released = false;
      ProgressBoard board(world);
      Watchdog dog(board, {.timeout = 1000ms, .grace = 20ms, .abort = hang, .end_process = release});
      const auto group = std::make_shared<MadeUp>(std::vector<int>{0});
      group->broken = true;
      dog.add(group);
      dog.start();
      if (noted) dog.fail("no more");  // it is ended too, when it wants to leave and cannot
      std::unique_lock lock(mutex);
      if (noted) continue;
      EXPECT_TRUE(wake.wait_for(lock, 30s, [&] { return released; }));
    }
    EXPECT_TRUE(released);
  }));
}

TEST(ProgressBoard, IsReadByProcessesOfTheNodeAndLeavesNothing) {
  expect_fine(run_as_processes(3, [](Communicator& world) {
    ProgressBoard board(world);
    EXPECT_TRUE(board.open(kKey));
    EXPECT_FALSE(board.progress(world.rank(), kKey + 1));
    board.publish(kKey, {3, static_cast<uint32_t>(world.rank())});
    world.barrier();
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_EQ(board.progress(rank, kKey), (device::Progress{3, static_cast<uint32_t>(rank)}));
    world.barrier();
    if (world.rank() == 1) board.close(kKey);
    if (world.rank() == 2) board.leave();
    world.barrier();
    EXPECT_FALSE(board.progress(1, kKey));
    EXPECT_TRUE(board.progress(2, kKey));
    EXPECT_TRUE(board.has_left(2));
    EXPECT_FALSE(board.has_left(1));
    EXPECT_FALSE(board.has_died(1) || board.has_died(2));
    world.barrier();
  }));
}

TEST(ProgressBoard, AFullOneSaysSo) {
  expect_fine(run_as_threads(1, [](Communicator& world) {
    ProgressBoard board(world);
    for (uint64_t group = 1; group <= ProgressBoard::kMaxGroups; ++group) EXPECT_TRUE(board.open(group));
    EXPECT_FALSE(board.open(1000));
    board.close(5);
    EXPECT_TRUE(board.open(1000));
  }));
}

TEST(ProgressBoard, KeepsTheFirstReason) {
  expect_fine(run_as_threads(2, [](Communicator& world) {
    ProgressBoard board(world);
    EXPECT_FALSE(board.stop_reason());
    world.barrier();
    if (world.rank() == 0) board.stop(std::string(5000, 'x'));
    world.barrier();
    board.stop("later");
    EXPECT_EQ(board.stop_reason(), std::string(1023, 'x'));
  }));
}

}  // namespace
}  // namespace recollect
