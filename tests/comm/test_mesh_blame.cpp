// In a mesh everybody waits soon for somebody who waits himself. All name the rank that is stuck, and nobody
// else.
#include "tests/comm/mesh_blame.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "tests/comm/ranks.h"

namespace recollect {
namespace {

using namespace std::chrono_literals;
using namespace test;
using Clock = std::chrono::steady_clock;

constexpr auto kAtMost = kBlameTimeout + 2s;

using Runner = std::vector<Outcome> (*)(int, const RankFunction&, std::chrono::milliseconds, std::size_t);

struct Layout {
  int data = 2, tensor = 2;
  int ranks() const { return data * tensor; }
};

void expect_blamed(const std::vector<Outcome>& outcomes, int stuck) {
  for (int rank = 0; rank < static_cast<int>(outcomes.size()); ++rank) {
    EXPECT_EQ(outcomes[rank].code, ExitCode::kPeerLost) << "rank " << rank << ": " << outcomes[rank].message;
    if (rank != stuck) {
      EXPECT_EQ(accused_in(outcomes[rank].message), std::set{stuck})
          << "rank " << rank << ": " << outcomes[rank].message;
    }
  }
}

// Each rank in turn is stuck, in meshes of their own side by side.
void each_thread_in_turn(Runner run, const Layout& mesh, Place place) {
  std::vector<std::jthread> runs;
  for (int stuck = 0; stuck < mesh.ranks(); ++stuck)
    runs.emplace_back([=] {
      const auto outcomes = run(
          mesh.ranks(),
          [&](Communicator& world) {
            sum_over_mesh(world, mesh.tensor, stuck, place, [&] {
              const auto start = Clock::now();
              while (!world.stop_reason() && Clock::now() < start + 30s) std::this_thread::sleep_for(5ms);
            });
          },
          kBlameTimeout, kDefaultChunkBytes);
      expect_blamed(outcomes, stuck);
    });
}

class StuckThread : public ::testing::TestWithParam<Runner> {};
INSTANTIATE_TEST_SUITE_P(Over, StuckThread, ::testing::Values(run_as_threads, run_over_tcp_as_threads),
                         [](const auto& info) { return info.index == 0 ? "SharedMemory" : "Tcp"; });

TEST_P(StuckThread, IsTheOneThatIsBlamed) {
  for (const Place place : {Place::kTensor, Place::kData, Place::kOutside})
    each_thread_in_turn(GetParam(), {2, 2}, place);
}

TEST_P(StuckThread, IsTheOneThatIsBlamedAmongEight) {
  each_thread_in_turn(GetParam(), {2, 4}, Place::kTensor);
}

// Until a helper wakes it, long after the others have given up.
void stop_this_process() {
  const pid_t stopped = ::getpid();
  if (::fork() == 0) {
    ::usleep(std::chrono::microseconds(kAtMost + 500ms).count());
    ::kill(stopped, SIGCONT);
    ::_exit(0);
  }
  ::raise(SIGSTOP);
}

class StoppedProcess : public ::testing::TestWithParam<Runner> {};
INSTANTIATE_TEST_SUITE_P(Over, StoppedProcess, ::testing::Values(run_as_processes, run_over_tcp_as_processes),
                         [](const auto& info) { return info.index == 0 ? "SharedMemory" : "Tcp"; });

TEST_P(StoppedProcess, IsTheOneThatIsBlamed) {
  const std::pair<int, Place> cases[] = {{1, Place::kTensor}, {3, Place::kData}};
  for (const auto& [stuck, place] : cases) {
    const auto outcomes = GetParam()(
        4,
        [&, stuck = stuck, place = place](Communicator& world) {
          Clock::time_point start = Clock::now();
          try {
            sum_over_mesh(world, 2, stuck, place, stop_this_process);
          } catch (...) {
            if (world.rank() != stuck) {
              EXPECT_LT(Clock::now() - start, kAtMost);
            }
            throw;
          }
        },
        kBlameTimeout, kDefaultChunkBytes);
    expect_blamed(outcomes, stuck);
  }
}

}  // namespace
}  // namespace recollect
