// A run whose cores other processes want: it says so, and its threads sleep where they wait; its results stay the same.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "engine/io/core_times.h"
#include "launch/doctor/calibrate.h"
#include "launch/train/busy_cores.h"
#include "tests/launch/process.h"

namespace recollect::test::busy_cores_test {
namespace {

constexpr CoreTimes kBegin{.running = 5, .waiting = 2, .of_process = 5, .of_machine = 1000};

// Of a process that ran and waited for so many seconds; `machine`: of all processes, in the same time.
std::optional<CoreContention> found(double running, double waiting, double machine, int processes = 1) {
  CoreTimes after = kBegin;
  after.running += running;
  after.of_process += running;
  after.waiting += waiting;
  after.of_machine += machine;
  return contention(kBegin, after, processes);
}

TEST(BusyCores, AreThoseThatOthersHave) {
  EXPECT_TRUE(found(0.4, 1.6, 2)->is_contested());
  EXPECT_NEAR(found(0.4, 1.6, 2)->waiting, 0.8, 1e-9);
  EXPECT_FALSE(found(2, 0, 2)->is_contested()) << "the run has all cores";
  EXPECT_TRUE(found(2, 0, 2)->is_calm());
  EXPECT_FALSE(found(1.8, 0.1, 2)->is_contested());
  EXPECT_FALSE(found(1.8, 0.1, 2)->is_calm());
  EXPECT_FALSE(found(2, 2, 2.02)->is_contested()) << "more threads of its own than cores";
  EXPECT_FALSE(found(0.5, 1, 2, 4)->is_contested()) << "four ranks on two cores";
  EXPECT_TRUE(found(0.25, 1, 2, 4)->is_contested()) << "and others beside them";
  EXPECT_FALSE(found(0.001, 0.002, 2)) << "too little to say";
  EXPECT_FALSE(found(-1, 0, 2)) << "a thread is gone";
}

TEST(BusyCores, SpoilACalibration) {
  CoreTimes after{.running = 6, .waiting = 3, .of_process = 6, .of_machine = 1003};
  const std::string said = disturbance(kBegin, after);
  EXPECT_TRUE(
      said.starts_with("other processes took the cores meanwhile, and this one stood 50 % of its time "))
      << said;
  after.waiting = 2;
  EXPECT_EQ(disturbance(kBegin, after), "");
}

// Processes that want all cores three times over, until it ends.
class Competitors {
 public:
  Competitors() {
    for (long i = 0; i < 3 * ::sysconf(_SC_NPROCESSORS_ONLN); ++i) {
      const pid_t pid = ::fork();
      if (pid == 0) {
        ::alarm(60);  // if nobody ends it
        for (std::atomic<unsigned> turns = 0;;) turns.fetch_add(1, std::memory_order_relaxed);
      }
      if (pid > 0) pids_.push_back(pid);
    }
  }
  ~Competitors() {
    for (const pid_t pid : pids_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }

 private:
  std::vector<pid_t> pids_;
};

std::vector<double> losses(const Workplace& place, const std::string& output) {
  std::vector<double> losses;
  for (const nlohmann::json& step : place.metrics(output)) losses.push_back(step["loss"]);
  return losses;
}

TEST(BusyCores, AreSaidOnceAndChangeNoBit) {
  if (!CoreClock().read()) GTEST_SKIP() << "this kernel does not say how long threads wait for a core";
  const Workplace place;
  const Words words{"device.backend=cpu", "training.precision=fp32", "training.max_steps=100",
                    "memory_report.at=[]", "profiling.step=0"};
  const Finished quiet = place.train(words + Words{"output_dir=chosen"});
  ASSERT_EQ(quiet.status, 0) << quiet.err;
  EXPECT_EQ(quiet.err.find("compete"), std::string::npos) << "how threads wait was chosen\n" << quiet.err;
  const Competitors competitors;
  const Finished busy = Process(Words{"env", "-u", "OMP_WAIT_POLICY", "-u", "GOMP_SPINCOUNT",
                                      recollect_binary(), "train", "c.yaml", "output_dir=found"} +
                                    words,
                                place.folder().path())
                            .wait(Workplace::kBound);
  ASSERT_EQ(busy.status, 0) << busy.err;
  EXPECT_EQ(times_in(busy.err, "recollect: load "), 1) << busy.err;
  EXPECT_EQ(times_in(busy.err, "other processes compete with this run"), 1) << busy.err;
  EXPECT_EQ(times_in(busy.err, "ranks wait passively\n"), 1) << busy.err;
  EXPECT_EQ(losses(place, "found").size(), 100u);
  EXPECT_EQ(losses(place, "found"), losses(place, "chosen"));
}

// What a rank of `recollect run` finds in its environment, and no rank where somebody has said how threads wait.
TEST(BusyCores, RanksThatAreLaunchedSpinShortly) {
  const Workplace place;
  const auto spins = [&](const Words& before) {
    const Finished run = Process(Words{"env", "-u", "OMP_WAIT_POLICY", "-u", "GOMP_SPINCOUNT"} + before +
                                     Words{recollect_binary(), "run", "--nproc-per-node", "2", "train",
                                           "c.yaml", "parallelism.data_parallel_size=2",
                                           "logging.hook=env > variables; cat > /dev/null"},
                                 place.folder().path())
                             .wait(Workplace::kBound);
    EXPECT_EQ(run.status, 0) << run.err;
    const std::string variables = "\n" + TemporaryFolder::read(place.file("variables"));
    const std::size_t at = variables.find("\nGOMP_SPINCOUNT=");
    return at == std::string::npos ? "" : variables.substr(at + 1, variables.find('\n', at + 1) - at - 1);
  };
  EXPECT_EQ(spins({}), std::string("GOMP_SPINCOUNT=") + kShortSpins);
  EXPECT_EQ(spins({"GOMP_SPINCOUNT=7"}), "GOMP_SPINCOUNT=7");
  EXPECT_EQ(spins({"OMP_WAIT_POLICY=active"}), "");
}

}  // namespace
}  // namespace recollect::test::busy_cores_test
