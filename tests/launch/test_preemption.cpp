// A run that is preempted finishes its step, saves a snapshot and ends with 75; going on from there comes to the bits of
// a run that was left alone. Over every way in which ranks are started.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <regex>
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
// mpirun leaves a second, which is too short for anything.
TEST(Preemption, SigtermOfMpirunEndsItAtOnceAndHarmsNothing) {
  const Workplace place;
  Process run(mpirun() + Words{"-np", "2", recollect_binary()} + endless({"snapshot.every_steps=3"}),
              place.folder().path());
  ASSERT_TRUE(wait_until([&] { return newest_step(place) > 3; })) << run.wait(1s).err;
  ::kill(run.pid(), SIGTERM);
  const Finished finished = run.wait(30s);
  EXPECT_NE(finished.status, 0);
  EXPECT_NE(finished.status, kPreempted);
  EXPECT_NE(finished.err.find("SIGTERM leaves no time for a snapshot here"), std::string::npos)
      << finished.err;
  const std::string newest = SnapshotFolder("out/snapshots").of_step(newest_step(place));
  EXPECT_EQ(place.recollect({"snapshot", "verify", newest}).status, 0);
}

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

// Ctrl-C of a process that no launcher has started.
TEST(Interrupted, SaysWhatIsSavedAndHowToGoOn) {
  ::signal(SIGINT, SIG_DFL);  // a shell's background jobs inherit that it is ignored
  const Workplace saving, losing;
  const auto start = [](const Workplace& place, const char* snapshots) {
    return std::make_unique<Process>(Words{recollect_binary(), "train", "c.yaml", "logging.steps=1000000",
                                           "training.max_steps=2000000", snapshots},
                                     place.folder().path());
  };
  const auto with = start(saving, "snapshot.every_steps=20"),
             without = start(losing, "snapshot.every_steps=0");
  ASSERT_TRUE(wait_until([&] { return newest_step(saving) > 0; })) << with->wait(1s).err;
  ASSERT_TRUE(trains(losing.folder().path())) << without->wait(1s).err;
  ::kill(with->pid(), SIGINT);
  ::kill(without->pid(), SIGINT);
  const Finished saved = with->wait(30s), lost = without->wait(30s);
  EXPECT_EQ(saved.status, 130) << saved.err;
  EXPECT_EQ(lost.status, 130) << lost.err;
  EXPECT_TRUE(std::regex_search(
      saved.err, std::regex("recollect: stopped by SIGINT after step [0-9]+ of 2000000: the same command "
                            "resumes from the newest snapshot, out/snapshots/step-[0-9]+\n")))
      << saved.err;
  EXPECT_TRUE(std::regex_search(
      lost.err, std::regex("recollect: stopped by SIGINT after step [0-9]+ of 2000000: nothing is saved to "
                           "resume from; snapshot.every_steps=N would save it\n")))
      << lost.err;
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

#if !defined(__SANITIZE_THREAD__)
// SIGTERM comes at any moment while the object goes away, which wakes its thread by signals too.
TEST(Preemption, LosesNoSignalWhenItEnds) {
  constexpr int kTimes = 800;
  const auto spin = [](int microseconds) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
    while (std::chrono::steady_clock::now() < until) {
    }
  };
  int lost = 0;
  for (int i = 0; i < kTimes; ++i) {
    const int later = i % 80 - 40;  // microseconds that the signal comes after the end begins
    const pid_t child = ::fork();
    if (child == 0) {
      ::signal(SIGTERM, SIG_DFL);
      std::atomic<bool> ends = false;
      std::thread sender;
      {
        RankWatch ranks;
        const Preemption preemption(ranks);
        sender = std::thread([&] {
          while (!ends) std::this_thread::yield();
          spin(std::max(0, later));
          ::kill(::getpid(), SIGTERM);
        });
        ends = true;
        spin(std::max(0, -later));
      }
      sender.join();
      std::this_thread::sleep_for(1s);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) continue;
    ++lost;
    ADD_FAILURE() << "ended with status " << status << ", SIGTERM " << later << " us after the end began";
  }
  EXPECT_EQ(lost, 0);
}
#endif

// The scripts of the page, with stand-ins for Slurm's commands.
class SlurmScripts : public ::testing::Test {
 protected:
  SlurmScripts() {
    stand_in("srun", "while [ \"${1#--}\" != \"$1\" ]; do shift; done; exec \"$@\"");
    stand_in("scontrol", "[ $1 = requeue ] && echo $2 >> requeued || echo 127.0.0.1");
  }
  // The block that begins so, of the page, with this configuration and this program.
  static std::string block(const std::string& begin, const std::string& configuration) {
    const std::string page = TemporaryFolder::read(RECOLLECT_SOURCE_DIR "/docs/launching.md");
    const std::size_t at = page.find("```\n" + begin) + 4;
    std::string text = page.substr(at, page.find("```", at) - at);
    const auto replace = [&](const std::string& what, const std::string& by) {
      const std::size_t found = text.find(what);
      ASSERT_NE(found, std::string::npos) << what;
      text.replace(found, what.size(), by);
    };
    replace("CONFIG.yaml", configuration);
    if (text.find("build/cpu/recollect") != std::string::npos)
      replace("build/cpu/recollect", recollect_binary());
    else
      replace("recollect run --nproc-per-node 4", recollect_binary() + " run --nproc-per-node 2");
    return text;
  }
  // Until it trains; then `preempt`, and its end.
  Finished run(const std::string& script, const char* restarts, const std::function<void(pid_t)>& preempt) {
    const auto lines = [&] {
      return times_in(TemporaryFolder::read(place_.file("out/metrics.jsonl")), "\n");
    };
    const int before = lines();
    Process job({"bash", "-c", script}, place_.folder().path(),
                {{"PATH", place_.file("bin") + ":" + std::getenv("PATH")},
                 {"SLURM_JOB_ID", "7"},
                 {"SLURM_JOB_NODELIST", "here"},
                 {"SLURM_RESTART_COUNT", restarts}});
    EXPECT_TRUE(wait_until([&] { return lines() > before + 20; }));
    preempt(job.pid());
    return job.wait(30s);
  }
  const Workplace place_;

 private:
  void stand_in(const std::string& name, const std::string& script) const {
    const std::string path = place_.folder().write("bin/" + name, "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
};

const std::string kOfScripts = "c.yaml training.max_steps=2000000 logging.steps=1000000";

TEST_F(SlurmScripts, RequeueAndGoOn) {
  const std::string script = block("#!/bin/bash\n#SBATCH", kOfScripts);
  for (const char* restarts : {"0", "1"}) {
    const Finished finished = run(script, restarts, [](pid_t job) {
      for (const pid_t rank : descendants(job, "recollect")) ::kill(rank, SIGUSR1);
    });
    expect_nothing_lost(place_, finished, "SIGUSR1");
  }
  EXPECT_EQ(TemporaryFolder::read(place_.file("requeued")), "7\n7\n");
  const auto metrics = place_.metrics();
  for (std::size_t i = 0; i < metrics.size(); ++i) ASSERT_EQ(metrics[i]["step"], i + 1);
}

TEST_F(SlurmScripts, PassTheSignalOn) {
  const std::string script = block("recollect run --nproc-per-node 4 train CONFIG.yaml",
                                   kOfScripts + " parallelism.tensor_parallel_size=2") +
                             "exit $status\n";
  const Finished finished = run(script, "0", [](pid_t job) { ::kill(job, SIGUSR1); });
  expect_nothing_lost(place_, finished, "SIGUSR1");
}

// Minutes are the least that can be asked for.
class EveryMinutes : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryMinutes, SavesAfterOne) {
  const Workplace place;
  Process run(Words{recollect_binary(), "train", "c.yaml", "training.max_steps=2000000",
                    "logging.steps=1000000", GetParam()},
              place.folder().path());
  const auto start = std::chrono::steady_clock::now();
  while (newest_step(place) < 0 && std::chrono::steady_clock::now() - start < 90s)
    std::this_thread::sleep_for(100ms);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 59s);
  EXPECT_GT(newest_step(place), 0);
}

INSTANTIATE_TEST_SUITE_P(Long, EveryMinutes, ::testing::Values("snapshot.every_minutes=1"));

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
