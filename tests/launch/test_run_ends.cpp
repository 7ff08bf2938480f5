// How a run ends when its ranks end: with the code of what ended it, in time, and all of it.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <filesystem>

#include "launch/run/failure.h"
#include "tests/launch/run_support.h"

namespace recollect::test::run_ends_test {
namespace {

using namespace std::chrono_literals;

struct Case {
  const char* name;
  int status;
  Words words;                         // behind `recollect run`
  std::vector<const char*> says = {};  // in standard error
  bool box = true;                     // about a failure
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class RunEnds : public ::testing::TestWithParam<Case> {};

// None of these takes the 30 s that a rank has to end by default.
TEST_P(RunEnds, WithTheCodeOfTheCause) {
  const Case& c = GetParam();
  Launch launch(c.words);
  const Finished finished = launch.finish(25s);
  EXPECT_EQ(finished.status, c.status) << finished.out << finished.err;
  for (const char* text : c.says)
    EXPECT_NE(finished.err.find(text), std::string::npos) << text << "\n" << finished.err;
  EXPECT_EQ(finished.err.find("FAILED") != std::string::npos, c.box) << finished.err;
}

Words ranks(int number, const std::string& script, const Words& flags = {}) {
  return flags + Words{"--nproc-per-node", std::to_string(number)} + shell(script);
}

// The first rank does this, the others would stay.
std::string first(const std::string& does) { return "[ $RANK != 0 ] || { " + does + "; }; exec sleep 1000"; }

std::string name_of(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(
    All, RunEnds,
    ::testing::Values(
        Case{"Clean", 0, ranks(3, "exit 0"), {}, false},
        Case{"OneRank", 0, shell("[ $RANK/$WORLD_SIZE = 0/1 ]"), {}, false},
        Case{"MoreRanksThanCores", 0, ranks(24, "exit 0"), {}, false},
        Case{"OneLeavesEarly", 0, ranks(2, "[ $RANK = 0 ] || sleep 0.3"), {}, false},
        Case{"Exits7",
             7,
             ranks(2, first("echo the reason >&2; exit 7")),
             {"rank 0 FAILED: exit code 7", "  what it wrote to stderr stands above, after [rank0]:\n",
              "  time   2", "  host   "}},
        Case{"WroteNothing", 1, ranks(1, "exit 1"), {"it wrote nothing to stderr"}},
        Case{"KilledBy9",
             137,
             ranks(3, first("kill -9 $$")),
             {"rank 0 FAILED: SIGKILL (signal 9)", "\n  the system kills so where memory ends: dmesg"}},
        Case{"KilledBy11", 139, ranks(3, first("ulimit -c 0; kill -11 $$")), {"SIGSEGV (signal 11)"}},
        Case{"KilledBy15", 143, ranks(3, first("kill -15 $$")), {"SIGTERM (signal 15)"}},
        Case{"AllFail", 3, ranks(2, "exit 3"), {"FAILED: exit code 3"}},
        // Rank 0 has lost rank 1, and is seen first.
        Case{"TheCauseIsSeenLast",
             7,
             ranks(3, "[ $RANK = 2 ] && exec sleep 1000; [ $RANK = 0 ] && exit 9; sleep 0.3; exit 7"),
             {"rank 1 FAILED: exit code 7", "also failed\n  rank 0 (pid ", " earlier\n",
              "told to end\n  rank 2 (pid "}},
        Case{"NoCauseIsSeen", 9, ranks(2, first("exit 9")), {"rank 0 FAILED: exit code 9"}},
        // Told to end, it says something else: nobody's cause.
        Case{"SecondThoughts",
             9,
             ranks(2, "[ $RANK = 0 ] && exit 9; trap 'exit 4' TERM; while :; do sleep 0.05; done"),
             {"rank 0 FAILED: exit code 9", "told to end\n  rank 1 (pid ", "): exit code 4, "}},
        Case{"DeafPeer",
             3,
             ranks(2,
                   "[ $RANK = 1 ] || { while [ ! -e deaf ]; do sleep 0.01; done; exit 3; }; trap '' TERM; "
                   ": > deaf; while :; do sleep 1; done",
                   {"--grace", "0.2"}),
             {"rank 0 FAILED: exit code 3", "told to end\n  rank 1 (pid ", "): SIGKILL (signal 9), "}},
        Case{"Preempted",
             75,
             ranks(2, "[ $RANK = 0 ] || sleep 0.3; exit 75", {"--max-restarts", "3"}),
             {"was preempted (exit code 75)"},
             false},
        Case{"ChildrenOfARank",
             5,
             ranks(2, first("sleep 1000 & setsid sleep 1000 & exit 5")),
             {"exit code 5"}},
        Case{"DaemonOfARank", 0, ranks(1, "setsid sleep 1000 > /dev/null 2>&1 &"), {}, false}),
    name_of);

TEST(Run, WhatARankStartedMayFinishItsWords) {
  Launch launch(shell("(sleep 0.2; echo last words) & exit 0"));
  const Finished finished = launch.finish();
  EXPECT_EQ(finished.status, 0);
  EXPECT_EQ(finished.out, "[rank0]: last words\n");
}

TEST(Run, StartsAgainAfterAFailure) {
  const std::string script =
      "echo $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS, port $MASTER_PORT; "
      "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || { [ $RANK = 0 ] || exec sleep 1000; exit 5; }";
  Launch launch(Words{"--nproc-per-node=2", "--max-restarts=3", "--log-dir=logs", "--run-id=again"} +
                shell(script));
  const Finished finished = launch.finish();
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_NE(finished.err.find("rank 0 FAILED: exit code 5"), std::string::npos) << finished.err;
  EXPECT_NE(finished.err.find("restart 1 of 3"), std::string::npos) << finished.err;
  EXPECT_EQ(finished.err.find("restart 2 of 3"), std::string::npos) << finished.err;
  const std::string logs = std::filesystem::directory_iterator(launch.file("logs"))->path();
  EXPECT_TRUE(logs.starts_with(launch.file("logs/again_"))) << logs;
  const auto said = [&](const std::string& of) { return test::TemporaryFolder::read(logs + of); };
  const std::string before = said("/attempt_0/0/stdout.log"), after = said("/attempt_1/0/stdout.log");
  EXPECT_EQ(before.substr(0, 13), "0 of 3, port ") << before;
  EXPECT_EQ(after.substr(0, 13), "1 of 3, port ") << after;
  EXPECT_EQ(after, said("/attempt_1/1/stdout.log")) << "all ranks have the same port";
  EXPECT_NE(before.substr(6), after.substr(6)) << "and every attempt has another";
}

TEST(Run, GivesUpAfterTheLastRestart) {
  Launch launch(Words{"--max_restarts", "2"} + shell("exit $((10 + TORCHELASTIC_RESTART_COUNT))"));
  const Finished finished = launch.finish();
  EXPECT_EQ(finished.status, 12) << finished.err;
  for (const char* text :
       {"exit code 10", "restart 1 of 2", "exit code 11", "restart 2 of 2", "exit code 12"})
    EXPECT_NE(finished.err.find(text), std::string::npos) << text << finished.err;
}

TEST(Run, TheFirstFailureIsTheCauseUnlessItOnlyLostAPeer) {
  using launcher::RankEnd, launcher::root_cause;
  const auto exited = [](int code, bool asked = false) {
    return RankEnd{.rank = 0, .pid = 1, .wait_status = W_EXITCODE(code, 0), .time = {}, .asked = asked};
  };
  const auto cause = [](const std::vector<RankEnd>& ends) {
    const RankEnd* end = root_cause(ends);
    return end ? static_cast<int>(end - ends.data()) : -1;
  };
  EXPECT_EQ(cause({}), -1);
  EXPECT_EQ(cause({exited(0), exited(0)}), -1);
  EXPECT_EQ(cause({exited(0), exited(4), exited(5)}), 1);
  EXPECT_EQ(cause({exited(9), exited(9), exited(5)}), 2);
  EXPECT_EQ(cause({exited(0), exited(9), exited(9)}), 1);
  EXPECT_EQ(cause({exited(9), exited(5, true)}), 0);
  EXPECT_EQ(cause({exited(5, true)}), -1);
  EXPECT_EQ(cause({RankEnd{.rank = 0, .pid = 1, .wait_status = W_EXITCODE(0, 11), .time = {}, .asked = false},
                   exited(9)}),
            0);
}

}  // namespace
}  // namespace recollect::test::run_ends_test
