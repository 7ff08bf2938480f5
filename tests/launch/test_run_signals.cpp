// What becomes of a run when somebody signals its launcher, or kills it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "comm/local/rendezvous.h"
#include "tests/launch/run_support.h"

namespace recollect::test::run_signals_test {
namespace {

using namespace std::chrono_literals;

bool exists(const std::string& path) { return std::filesystem::exists(path); }

// Both ranks have said that they are there: rankN exists.
void wait_for_ranks(const Launch& launch, int number) {
  for (int rank = 0; rank < number; ++rank)
    ASSERT_TRUE(wait_until([&] { return exists(launch.file("rank" + std::to_string(rank))); }))
        << launch.err();
}

// A rank that waits, and does `more` on its way.
Words waiting(int ranks, const std::string& more, const Words& flags = {}) {
  return flags + Words{"--nproc-per-node", std::to_string(ranks)} +
         shell(more + "; : > rank$RANK; while :; do sleep 0.02; done");
}

struct RunSignalsCase {
  const char* name;
  int signal, status;
  std::string script;
};

void PrintTo(const RunSignalsCase& c, std::ostream* out) { *out << c.name; }

class RunSignalled : public ::testing::TestWithParam<RunSignalsCase> {};

TEST_P(RunSignalled, EndsAsItsRanksDo) {
  Launch launch(waiting(2, GetParam().script));
  wait_for_ranks(launch, 2);
  launch.signal(GetParam().signal);
  const Finished finished = launch.finish(25s);
  EXPECT_EQ(finished.status, GetParam().status) << finished.err;
  EXPECT_EQ(finished.err.find("FAILED"), std::string::npos) << finished.err;
}

INSTANTIATE_TEST_SUITE_P(
    All, RunSignalled,
    ::testing::Values(RunSignalsCase{"Term", SIGTERM, 143, ":"}, RunSignalsCase{"Int", SIGINT, 130, ":"},
                      RunSignalsCase{"Hup", SIGHUP, 129, ":"},
                      RunSignalsCase{"SavedAndLeft", SIGTERM, 75, "trap 'exit 75' TERM"},
                      RunSignalsCase{"OneSaved", SIGTERM, 75, "[ $RANK = 0 ] || trap 'exit 75' TERM"},
                      RunSignalsCase{"SavedOnUsr1", SIGUSR1, 75, "trap 'exit 75' USR1"},
                      RunSignalsCase{"DoneInPeace", SIGINT, 0, "trap 'exit 0' INT"}),
    [](const ::testing::TestParamInfo<RunSignalsCase>& info) { return info.param.name; });

TEST(RunSignals, ReachTheRanksAndChangeNothingElse) {
  Launch launch(waiting(2, "trap ': > one$RANK' USR1; trap ': > two$RANK' USR2"));
  wait_for_ranks(launch, 2);
  launch.signal(SIGUSR1);
  launch.signal(SIGUSR2);
  for (const char* name : {"one0", "one1", "two0", "two1"})
    EXPECT_TRUE(wait_until([&] { return exists(launch.file(name)); })) << name;
  launch.signal(SIGTERM);
  EXPECT_EQ(launch.finish().status, 143);
}

TEST(RunSignals, AHangingRankIsKilledAfterItsGrace) {
  Launch launch(waiting(2, "[ $RANK = 0 ] || trap '' TERM INT", {"--grace", "0.5"}));
  wait_for_ranks(launch, 2);
  const auto start = std::chrono::steady_clock::now();
  launch.signal(SIGINT);
  EXPECT_EQ(launch.finish(25s).status, 130);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 500ms);
}

TEST(RunSignals, AStoppedRankIsKilledToo) {
  Launch launch(waiting(2, ":", {"--grace", "0.2"}));
  wait_for_ranks(launch, 2);
  for (const pid_t rank : launch.ranks()) ::kill(rank, SIGSTOP);
  launch.signal(SIGTERM);
  EXPECT_EQ(launch.finish(25s).status, 143);
}

TEST(RunSignals, ASecondInterruptKillsAtOnce) {
  Launch launch(waiting(2, "trap ': > told' INT", {"--grace", "600"}));
  wait_for_ranks(launch, 2);
  launch.signal(SIGINT);
  ASSERT_TRUE(wait_until([&] { return exists(launch.file("told")); }));
  launch.signal(SIGINT);
  EXPECT_EQ(launch.finish(25s).status, 130);
}

TEST(RunSignals, NoRestartForWhoWasToldToEnd) {
  Launch launch(waiting(2, "trap 'exit 6' TERM", {"--max-restarts", "5"}));
  wait_for_ranks(launch, 2);
  launch.signal(SIGTERM);
  const Finished finished = launch.finish(25s);
  EXPECT_EQ(finished.status, 6);
  EXPECT_EQ(finished.err.find("restart"), std::string::npos) << finished.err;
}

// As a wrapper script does that does not `exec` what it wraps.
TEST(RunSignals, NothingSurvivesALauncherThatIsKilled) {
  Launch launch(waiting(4, "trap '' TERM INT; sleep 1000 & (trap '' HUP; sleep 1000 &)"));
  wait_for_ranks(launch, 4);
  // A process has no environment to be found by in the moment in which it becomes another program.
  EXPECT_TRUE(wait_until([&] { return launch.ranks().size() >= 12; }));
  launch.signal(SIGKILL);
  EXPECT_EQ(launch.finish().status, 137);
}

// The rank kills it, perhaps before the launcher knows that there is a rank.
TEST(RunSignals, NothingSurvivesALauncherThatIsKilledAtOnce) {
  for (int i = 0; i < 8; ++i) {
    Launch launch(shell("sleep 1000 & kill -KILL $PPID; sleep 1000"));
    launch.expect_killed();
    EXPECT_EQ(launch.finish().status, 137);
  }
}

// Rank 0 waits in shared memory for a rank 1 that never comes.
TEST(RunSignals, ALauncherThatIsKilledLeavesNoSharedMemory) {
  for (const int signal : {SIGKILL, SIGTERM}) {
    Launch launch(Words{"--nproc-per-node=2"} +
                  shell("[ $RANK = 0 ] || exec sleep 1000; exec " + recollect_binary() +
                        " train c.yaml parallelism.tensor_parallel_size=2"));
    std::string segment;
    ASSERT_TRUE(wait_until([&] {
      const auto ranks = launch.ranks();
      const std::string id = ranks.empty() ? "" : variable_of(ranks.front(), "RECOLLECT_RUN_ID");
      segment = "/dev/shm" + local::segment_name(id);
      return !id.empty() && exists(segment);
    })) << launch.err();
    launch.signal(signal);
    EXPECT_EQ(launch.finish().status, 128 + signal);
    EXPECT_TRUE(wait_until([&] { return !exists(segment); })) << segment;
  }
}

TEST(RunSignals, AFullPipeDoesNotMakeTheLauncherDeaf) {
  const test::TemporaryFolder folder;
  const std::string fifo = folder.file("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const int reader = ::open(fifo.c_str(), O_RDWR | O_CLOEXEC);  // and never reads
  ASSERT_GE(reader, 0);
  Launch launch({"yes"}, {}, {"sh", "-c", "exec \"$@\" > " + fifo, "sh"});
  int before = 0, now = 0;
  EXPECT_TRUE(wait_until([&] { return ::ioctl(reader, FIONREAD, &now) == 0 && now > 60000; }));
  EXPECT_TRUE(wait_until([&] {  // nothing moves any more
    before = now;
    ::usleep(50000);
    return ::ioctl(reader, FIONREAD, &now) == 0 && now == before;
  }));
  launch.signal(SIGINT);
  EXPECT_EQ(launch.finish(25s).status, 130);
  ::close(reader);
}

// The first process of a container, which inherits every orphan.
TEST(RunSignals, WorksAsTheFirstProcess) {
  const Words alone{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"};
  const test::TemporaryFolder folder;
  if (Process(alone + Words{"true"}, folder.path()).wait(25s).status != 0)
    GTEST_SKIP() << "a PID namespace of its own is not permitted here";
  const std::string script =
      "[ $PPID = 1 ] || exit 3; (sh -c 'echo $$ > orphan.tmp; mv orphan.tmp orphan' &); n=0; "
      "while [ ! -s orphan ] || [ -e /proc/$(cat orphan) ]; do n=$((n + 1)); [ $n -lt 500 ] || exit 4; "
      "sleep 0.02; done; : > rank$RANK; exec sleep 1000";
  Launch launch(shell(script), {}, alone);
  wait_for_ranks(launch, 1);
  const std::vector<pid_t> inside = descendants(launch.pid(), "recollect");
  ASSERT_EQ(inside.size(), 1u);
  ASSERT_EQ(::kill(inside.front(), SIGTERM), 0);
  EXPECT_EQ(launch.finish().status, 143);
}

}  // namespace
}  // namespace recollect::test::run_signals_test
