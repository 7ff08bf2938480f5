// Processes of a run find each other and nobody else, and leave nothing behind, however joining goes wrong.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <new>
#include <thread>

#include "comm/local.h"
#include "comm/local/rendezvous.h"
#include "tests/comm/ranks.h"

namespace recollect {
namespace {

using namespace std::chrono_literals;
using namespace test;

void join_and_sum(const LocalWorld& world) {
  const auto c = join_local_processes(world);
  int64_t value = c->rank() + 1;
  c->all_reduce({&value, {1}, DType::kI64}, ReduceOp::kSum);
  EXPECT_EQ(value, world.size * (world.size + 1) / 2);
}

// A rank 0 of the run that was killed while it waited for the others: its name stays.
void leave_a_dead_run(const std::string& run_id, int size) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    try {
      join_local_processes({.run_id = run_id, .rank = 0, .size = size, .timeout = 60s});
    } catch (...) {
    }
    ::_exit(0);
  }
  while (!is_in_shared_memory(run_id)) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(20ms);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  ASSERT_TRUE(is_in_shared_memory(run_id));
}

TEST(Join, ADeadRunOfTheSameNameIsNotJoined) {
  void* shared = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* is_dead = new (shared) std::atomic<bool>(false);
  for (const int dead_size : {3, 5}) {
    is_dead->store(false);
    expect_fine(run_processes(3, [&](int rank, const std::string& run_id) {
      if (rank == 0) {
        leave_a_dead_run(run_id, dead_size);
        is_dead->store(true);
        std::this_thread::sleep_for(100ms);
      }
      // Rank 1 looks at the dead run meanwhile, rank 2 comes when the new one is there.
      while (!is_dead->load()) std::this_thread::sleep_for(1ms);
      if (rank == 2) std::this_thread::sleep_for(200ms);
      join_and_sum({.run_id = run_id, .rank = rank, .size = 3, .timeout = 30s});
    }));
  }
  ::munmap(shared, 4096);
}

TEST(Join, ADeadRunIsTidiedUpByRanksThatGiveUp) {
  const auto outcomes = run_processes(2, [](int rank, const std::string& run_id) {
    if (rank == 0) return leave_a_dead_run(run_id, 2);
    std::this_thread::sleep_for(300ms);
    join_and_sum({.run_id = run_id, .rank = rank, .size = 2, .timeout = 300ms});
  });
  EXPECT_EQ(outcomes[0].code, ExitCode::kOk) << outcomes[0].message;
  EXPECT_EQ(outcomes[1].code, ExitCode::kPeerLost) << outcomes[1].message;
}

TEST(Join, ALeftoverThatIsNoSegmentIsReplaced) {
  for (const std::string content : {"", "something else entirely"}) {
    expect_fine(run_processes(2, [&](int rank, const std::string& run_id) {
      if (rank == 0) {
        const int file = ::shm_open(local::segment_name(run_id).c_str(), O_RDWR | O_CREAT, 0600);
        EXPECT_GE(::write(file, content.data(), content.size()), 0);
        EXPECT_EQ(::ftruncate(file, content.empty() ? 0 : 1 << 20), 0);
        ::close(file);
        std::this_thread::sleep_for(50ms);
      }
      join_and_sum({.run_id = run_id, .rank = rank, .size = 2, .timeout = 30s});
    }));
  }
}

TEST(Join, ARankThatIsNotStartedIsNamedByRankZero) {
  const auto outcomes = run_processes(3, [](int rank, const std::string& run_id) {
    if (rank != 1)  // long enough for the one that comes, on a busy machine too
      join_and_sum({.run_id = run_id, .rank = rank, .size = 3, .timeout = 2s});
  });
  for (const int rank : {0, 2}) EXPECT_EQ(outcomes[rank].code, ExitCode::kPeerLost) << outcomes[rank].message;
  EXPECT_NE(outcomes[0].message.find("rank 1 of run"), std::string::npos) << outcomes[0].message;
}

TEST(Join, WithoutRankZeroTheOthersGiveUp) {
  const auto outcomes = run_processes(3, [](int rank, const std::string& run_id) {
    if (rank != 0) join_and_sum({.run_id = run_id, .rank = rank, .size = 3, .timeout = 300ms});
  });
  for (const int rank : {1, 2}) EXPECT_EQ(outcomes[rank].code, ExitCode::kPeerLost) << outcomes[rank].message;
}

TEST(Join, RankZeroKilledWhileJoiningLeavesNothing) {
  const auto outcomes = run_processes(3, [](int rank, const std::string& run_id) {
    if (rank == 0) {
      std::thread([] {
        std::this_thread::sleep_for(200ms);
        ::kill(::getpid(), SIGKILL);
      }).detach();
    }
    if (rank != 2) join_and_sum({.run_id = run_id, .rank = rank, .size = 3, .timeout = 60s});
  });
  EXPECT_EQ(outcomes[1].code, ExitCode::kPeerLost) << outcomes[1].message;
}

TEST(Join, AJoinerKilledWhileJoiningIsNoticed) {
  const auto outcomes = run_processes(3, [](int rank, const std::string& run_id) {
    if (rank == 1) {
      std::thread([] {
        std::this_thread::sleep_for(200ms);
        ::kill(::getpid(), SIGKILL);
      }).detach();
    }
    if (rank != 2) join_and_sum({.run_id = run_id, .rank = rank, .size = 3, .timeout = 60s});
  });
  EXPECT_EQ(outcomes[0].code, ExitCode::kPeerLost);
  EXPECT_NE(outcomes[0].message.find("the process of rank 1 has ended"), std::string::npos)
      << outcomes[0].message;
}

TEST(Join, DifferentSizesAreDisagreement) {
  const auto outcomes = run_processes(3, [](int rank, const std::string& run_id) {
    join_and_sum({.run_id = run_id, .rank = rank, .size = rank == 2 ? 4 : 3, .timeout = 1s});
  });
  EXPECT_EQ(outcomes[2].code, ExitCode::kRanksDisagree) << outcomes[2].message;
  EXPECT_EQ(outcomes[0].code, ExitCode::kPeerLost);
  EXPECT_NE(outcomes[0].message.find("rank 2 expects 4"), std::string::npos) << outcomes[0].message;
  EXPECT_EQ(outcomes[1].code, ExitCode::kPeerLost);
}

TEST(Join, TwoProcessesOfOneRankAreAnError) {
  const auto outcomes = run_processes(3, [](int rank, const std::string& run_id) {
    join_and_sum({.run_id = run_id, .rank = rank == 0 ? 0 : 1, .size = 3, .timeout = 2s});
  });
  const int refused = outcomes[1].code == ExitCode::kConfiguration ? 1 : 2;
  EXPECT_EQ(outcomes[refused].code, ExitCode::kConfiguration) << outcomes[refused].message;
  EXPECT_NE(outcomes[refused].message.find("two processes are rank 1"), std::string::npos);
  EXPECT_EQ(outcomes[0].code, ExitCode::kPeerLost);
}

TEST(Join, NeedsARunId) {
  try {
    join_local_processes({.run_id = "", .rank = 0, .size = 2});
    FAIL() << "joined without a run id";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kConfiguration);
  }
}

}  // namespace
}  // namespace recollect
