// A run that is preempted finishes its step, saves a snapshot and ends with 75; going on from there comes to the bits of
// a run that was left alone. Over every way in which ranks are started.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <thread>

#include "engine/core/error.h"
#include "launch/train/preemption.h"
#include "parallel/snapshot/snapshot_folder.h"
#include "tests/launch/run_support.h"

namespace recollect::test::preemption_test {
namespace {

using namespace std::chrono_literals;

constexpr int kPreempted = static_cast<int>(ExitCode::kPreempted);

const Words kTwo{"parallelism.tensor_parallel_size=2"};
const Words kSaving{"snapshot.every_steps=1000000"};  // only when it is preempted, or ends

Words endless(const Words& more = kSaving) {
  return Words{"train", "c.yaml", "training.max_steps=2000000", "logging.steps=1000000"} + kTwo + more;
}

bool trains(const std::string& folder) {
  return wait_until([&] {
    const std::string file = folder + "/out/metrics.jsonl";
    return std::filesystem::exists(file) && std::filesystem::file_size(file) > 1000;
  });
}

int64_t newest_step(const Workplace& place) {
  const auto steps = SnapshotFolder(place.file("out/snapshots")).steps();
  return steps.empty() ? -1 : steps.front();
}

// The run ended behind the latest step that it did, with a snapshot of it.
void expect_nothing_lost(const Workplace& place, const Finished& finished, const std::string& signal) {
  EXPECT_EQ(finished.status, kPreempted) << finished.out << finished.err;
  const int64_t step = newest_step(place);
  ASSERT_GT(step, 0) << finished.err;
  const auto metrics = place.metrics();
  EXPECT_EQ(metrics.back()["step"], step);
  EXPECT_NE(finished.err.find("preempted by " + signal + " after step " + std::to_string(step)),
            std::string::npos)
      << finished.err;
}

struct PreemptionCase {
  const char* name;
  int signal;
  const char* communicator;
  bool only_rank_1;
};

void PrintTo(const PreemptionCase& c, std::ostream* out) { *out << c.name; }

class Preempted : public ::testing::TestWithParam<PreemptionCase> {};

TEST_P(Preempted, LosesNoStep) {
  const PreemptionCase& c = GetParam();
  Launch launch(Words{"--nproc-per-node=2"} +
                endless(kSaving + Words{std::string("parallelism.communicator=") + c.communicator}));
  ASSERT_TRUE(trains(launch.place().folder().path())) << launch.err();
  if (!c.only_rank_1) launch.signal(c.signal);
  for (const pid_t rank : launch.ranks())
    if (c.only_rank_1 && variable_of(rank, "RANK") == "1") ::kill(rank, c.signal);
  expect_nothing_lost(launch.place(), launch.finish(30s), c.signal == SIGUSR1 ? "SIGUSR1" : "SIGTERM");
}

INSTANTIATE_TEST_SUITE_P(All, Preempted,
                         ::testing::Values(PreemptionCase{"Usr1Local", SIGUSR1, "local", false},
                                           PreemptionCase{"TermTcp", SIGTERM, "tcp", false},
                                           PreemptionCase{"OneRankOfTwo", SIGUSR1, "local", true}),
                         [](const ::testing::TestParamInfo<PreemptionCase>& info) {
                           return info.param.name;
                         });

#if !defined(__SANITIZE_THREAD__)
TEST(Preemption, ReachesTheRanksOfMpirun) {
  const Workplace place;
  Process run(mpirun() + Words{"-np", "2", recollect_binary()} + endless(), place.folder().path());
  ASSERT_TRUE(trains(place.folder().path())) << run.wait(1s).err;
  ::kill(run.pid(), SIGUSR1);
  expect_nothing_lost(place, run.wait(30s), "SIGUSR1");
}
#endif

// Threads as ranks, in the first life; then the rest, at once.
TEST(Preemption, ComesToTheBitsOfARunThatWasLeftAlone) {
  const Workplace place, alone;
  const Words words{"train", "c.yaml", "training.max_steps=400", "parallelism.ranks_per_process=2",
                    "parallelism.tensor_parallel_size=2"};
  Process run(Words{recollect_binary()} + words + kSaving, place.folder().path());
  ASSERT_TRUE(trains(place.folder().path()));
  ::kill(run.pid(), SIGUSR1);
  expect_nothing_lost(place, run.wait(30s), "SIGUSR1");
  EXPECT_LT(newest_step(place), 400);
  EXPECT_EQ(place.recollect(words + kSaving).status, 0);
  EXPECT_EQ(alone.recollect(words + kSaving).status, 0);
  const auto metrics = place.metrics(), expected = alone.metrics();
  ASSERT_EQ(metrics.size(), expected.size());
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    EXPECT_EQ(metrics[i]["step"], expected[i]["step"]);
    EXPECT_EQ(metrics[i]["loss"], expected[i]["loss"]) << i;
  }
}

TEST(Preemption, SaysWhereNothingCouldBeSaved) {
  Launch launch(Words{"--nproc-per-node=2"} + endless({"snapshot.every_steps=0"}));
  ASSERT_TRUE(trains(launch.place().folder().path())) << launch.err();
  launch.signal(SIGUSR1);
  const Finished finished = launch.finish(30s);
  EXPECT_EQ(finished.status, kPreempted) << finished.err;
  EXPECT_NE(finished.err.find("nothing is saved"), std::string::npos) << finished.err;
}

// Rank 1 is held, so that the step under way cannot end.
TEST(Preemption, ASecondSignalEndsItAtOnce) {
  Launch launch(Words{"--nproc-per-node=2"} + endless({"snapshot.every_steps=3"}));
  ASSERT_TRUE(wait_until([&] { return newest_step(launch.place()) > 0; })) << launch.err();
  for (const pid_t rank : launch.ranks())
    if (variable_of(rank, "RANK") == "1") ::kill(rank, SIGSTOP);
  launch.signal(SIGUSR1);
  std::this_thread::sleep_for(700ms);
  EXPECT_FALSE(launch.ranks().empty());
  const int64_t newest = newest_step(launch.place());
  launch.signal(SIGUSR1);
  const Finished finished = launch.finish(10s);
  EXPECT_EQ(finished.status, 128 + SIGUSR1) << finished.err;
  EXPECT_GE(newest_step(launch.place()), newest);
}

// Only the ranks were preempted, as where a batch system signals them and their node stays.
TEST(Preemption, OfTheRanksAloneStartsThemAgain) {
  Launch launch(Words{"--nproc-per-node=2", "--max-restarts=1"} + endless());
  for (const char* count : {"0", "1"}) {
    const auto ranks = [&] {
      std::vector<pid_t> all = launch.ranks();
      std::erase_if(all,
                    [&](pid_t rank) { return variable_of(rank, "TORCHELASTIC_RESTART_COUNT") != count; });
      return all;
    };
    ASSERT_TRUE(wait_until([&] { return ranks().size() == 2; })) << launch.err();
    const auto size = [&] {
      std::error_code none;
      const auto bytes = std::filesystem::file_size(launch.file("out/metrics.jsonl"), none);
      return none ? 0 : bytes;
    };
    const auto before = size();
    ASSERT_TRUE(wait_until([&] { return size() > before + 1000; })) << launch.err();
    for (const pid_t rank : ranks()) ::kill(rank, SIGUSR1);
    ASSERT_TRUE(wait_until([&] { return newest_step(launch.place()) > 0; })) << launch.err();
  }
  const Finished finished = launch.finish(30s);
  expect_nothing_lost(launch.place(), finished, "SIGUSR1");
  EXPECT_NE(finished.err.find("restart 1 of 1, since rank "), std::string::npos) << finished.err;
  EXPECT_NE(finished.out.find("resumed from out/snapshots/step-"), std::string::npos) << finished.out;
  const auto metrics = launch.place().metrics();
  for (std::size_t i = 0; i < metrics.size(); ++i)
    ASSERT_EQ(metrics[i]["step"], i + 1) << "no gap, no repeated step";
}

TEST(Preemption, KnowsHowMuchTimeSigtermLeaves) {
  const auto seconds = [](const Environment& environment) {
    return grace_seconds([&](const char* name) {
      const auto found = environment.find(name);
      return found == environment.end() ? nullptr : found->second.c_str();
    });
  };
  EXPECT_EQ(seconds({}), 30);
  EXPECT_EQ(seconds({{"SLURM_JOB_ID", "7"}}), 30);
  EXPECT_EQ(seconds({{"RECOLLECT_GRACE", "2.5"}}), 2.5);
  EXPECT_EQ(seconds({{"OMPI_COMM_WORLD_RANK", "0"}}), 1);
  EXPECT_EQ(seconds({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_MCA_odls_base_sigkill_timeout", "60"}}), 60);
}

}  // namespace
}  // namespace recollect::test::preemption_test
