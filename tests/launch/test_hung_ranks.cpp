// A rank that hangs is named by the others, with the collective that it lacks and the op that makes it, and everybody
// ends within the timeout and two seconds; status.<rank>.json says what each rank did. Ranks that are slow are named too.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include <fmt/ranges.h>

#include "comm/local.h"
#include "engine/io/json.h"
#include "launch/config/read.h"
#include "launch/ranks/world.h"
#include "launch/train/preemption.h"
#include "launch/train/slow_ranks.h"
#include "launch/train/train_results.h"
#include "tests/launch/report_harness.h"
#include "tests/launch/run_support.h"

namespace recollect::test::hung_ranks_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kTimeout = 3s;

const Words kTrain{"train",
                   "c.yaml",
                   "training.max_steps=2000000",
                   "logging.steps=1000000",
                   "parallelism.tensor_parallel_size=2",
                   "parallelism.timeout_seconds=3"};

// So many steps that their collectives fill the log of calls.
bool trains(const std::string& folder) {
  return wait_until([&] {
    const std::string file = folder + "/out/metrics.jsonl";
    return std::filesystem::exists(file) && std::filesystem::file_size(file) > 8000;
  });
}

nlohmann::json status_of(const Workplace& place, int rank) {
  const std::string file = place.file("out/status." + std::to_string(rank) + ".json");
  return nlohmann::json::parse(test::TemporaryFolder::read(file));
}

// Rank 0's, where rank 1 does not come any more.
void expect_rank_1_blamed(const Workplace& place, const std::string& errors) {
  const nlohmann::json status = status_of(place, 0);
  EXPECT_EQ(status["exit_code"], 9);
  const std::string first = status["first_failure"];
  EXPECT_NE(first.find("rank 1 did not come within 3 s"), std::string::npos) << first;
  ASSERT_TRUE(status["in"].is_object()) << status;
  const std::string op = status["in"]["op"], collective = status["in"]["collective"];
  EXPECT_NE(
      errors.find(collective + " of rank 0" + (op.empty() ? "" : " (" + op + ")") + ": rank 1 did not come"),
      std::string::npos)
      << errors;
  EXPECT_GT(status["step"], 2);
  EXPECT_EQ(status["calls"].size(), CallLog::kKept);
  EXPECT_EQ(status["calls"].back()["collective"], collective);
}

class HungRanks : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Over, HungRanks, ::testing::Values("local", "tcp"));

TEST_P(HungRanks, AStoppedOneIsNamedAndAllEndInTime) {
  Launch launch(Words{"--nproc-per-node=2"} + kTrain +
                Words{std::string("parallelism.communicator=") + GetParam()});
  ASSERT_TRUE(trains(launch.place().folder().path())) << launch.err();
  for (const pid_t rank : launch.ranks())
    if (variable_of(rank, "RANK") == "1") ::kill(rank, SIGSTOP);
  const auto start = Clock::now();
  const Finished finished = launch.finish(30s);
  EXPECT_LT(Clock::now() - start, kTimeout + 2s);
  EXPECT_EQ(finished.status, 9) << finished.err;
  expect_rank_1_blamed(launch.place(), finished.err);
  EXPECT_EQ(status_of(launch.place(), 1)["rank"], 1) << "it goes on once more, to be ended";
}

#if !defined(__SANITIZE_THREAD__)
TEST(HungRanksOfMpirun, AStoppedOneIsNamedAndAllEndInTime) {
  const Workplace place;
  Process run(mpirun() + Words{"-np", "2", recollect_binary()} + kTrain, place.folder().path());
  ASSERT_TRUE(trains(place.folder().path())) << run.wait(1s).err;
  for (const pid_t rank : descendants(run.pid(), "recollect"))
    if (variable_of(rank, "OMPI_COMM_WORLD_RANK") == "1") ::kill(rank, SIGSTOP);
  const auto start = Clock::now();
  const Finished finished = run.wait(30s);
  EXPECT_LT(Clock::now() - start, kTimeout + 2s + 1s) << "one more: mpirun's own, to end the others";
  EXPECT_EQ(finished.status, 9) << finished.err;
  expect_rank_1_blamed(place, finished.err);
}
#endif

// Rank 1 is in a loop without end, in the process of rank 0, which waits for it in vain.
void run_with_a_dead_loop(const std::string& folder) {
  LocalGroup group(2, 300ms);
  RankWatch ranks;
  const Preemption preemption(ranks);
  std::thread other([&] {
    const auto world = group.join(1);
    RankStatus status(*world, folder);
    ranks.add(status);
    status.begin();
    world->barrier();
    while (true) std::this_thread::sleep_for(1ms);
  });
  const auto world = group.join(0);
  RankStatus status(*world, folder);
  ranks.add(status);
  status.begin();
  world->barrier();
  try {
    world->barrier();
  } catch (const Error& error) {
    ranks.remove(status, error.code(), error.what());
    status.write(error.code(), error.what());
  }
  other.join();
}

TEST(HungRank, InADeadLoopIsEndedWithItsProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const test::TemporaryFolder mine;
        run_with_a_dead_loop(mine.path());
      },
      ::testing::ExitedWithCode(9),
      "rank 1: still busy after the run was given up: barrier #2 of rank 0: rank 1 did not");
}

TEST(RankStatus, IsWrittenOnceAndOnlyOfARankThatHasBegun) {
  const test::TemporaryFolder folder;
  const auto world = make_self_communicator();
  RankStatus status(*world, folder.file("new"));
  status.write(ExitCode::kInput, "refused");
  EXPECT_FALSE(std::filesystem::exists(folder.file("new")));
  status.begin();
  status.log().begin_step(7);
  status.write(ExitCode::kNumerics, "loss \xff is \"nan\"");
  status.write(ExitCode::kPeerLost, "later");
  const auto json = nlohmann::json::parse(test::TemporaryFolder::read(folder.file("new/status.0.json")));
  EXPECT_EQ(json["exit_code"], 7);
  EXPECT_EQ(json["step"], 7);
  EXPECT_EQ(json["failure"], json["first_failure"]);
  EXPECT_TRUE(json["calls"].empty());
  RankStatus(*world, folder.file("new")).begin();
  EXPECT_FALSE(std::filesystem::exists(folder.file("new/status.0.json"))) << "of an earlier run";
}

TEST(SlowRanks, AreThoseWellAboveTheMedian) {
  const auto found = [](std::vector<double> seconds) {
    std::vector<int> ranks;
    for (const SlowRanks::One& one : find_slow_ranks(seconds).ranks) ranks.push_back(one.rank);
    return ranks;
  };
  EXPECT_EQ(found({1}), std::vector<int>());
  EXPECT_EQ(found({1, 1.2}), std::vector<int>());
  EXPECT_EQ(found({1.4, 1}), std::vector<int>({0}));
  EXPECT_EQ(found({1, 1.1, 1.5, 0.9, 2}), std::vector<int>({4, 2}));
  EXPECT_EQ(found({1e-3, 2e-3}), std::vector<int>()) << "too little to tell";
  EXPECT_EQ(found({0, 0, 0}), std::vector<int>());
}

// Holds a rank in every step, before one op.
class HoldAlways final : public ExecutorProbe {
 public:
  void before_op(const Executor& executor, OpId id) override {
    const Op& op = executor.program().graph.op(id);
    const bool turns = op.phase == Phase::kBackward && before_ == Phase::kForward;
    before_ = op.phase;
    if (turns) std::this_thread::sleep_for(10ms);
  }

 private:
  Phase before_ = Phase::kForward;
};

TEST(SlowRanks, OneThatIsHeldInEveryStepIsNamed) {
  const Config config = read_config_text(
      "test.yaml", kReportYaml,
      {"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=4", "training.max_steps=12"});
  std::unique_ptr<MpiEnvironment> mpi;
  HoldAlways hold;
  std::vector<std::string> texts(4), results(4);
  std::vector<double> own(4);
  run_ranks(config, mpi, [&](Communicator& world) {
    Config mine = config;
    resolve_world(mine, world.size());
    Session session(mine, world, {.probe = world.rank() == 2 ? &hold : nullptr});
    for (int64_t step = 0; step < mine.training.max_steps; ++step) session.step();
    own[static_cast<std::size_t>(world.rank())] = 1e3 * session.own_seconds();
    texts[static_cast<std::size_t>(world.rank())] =
        slow_ranks_text(gather_slow_ranks(session.own_seconds(), world));
    TrainResults result{.steps = 12};
    add_ranks(session, result);
    results[static_cast<std::size_t>(world.rank())] = results_json(result);
  });
  const auto slow = nlohmann::json::parse(results[0]).at("slow_ranks");
  EXPECT_EQ(slow[0].at("rank"), 2);
  EXPECT_GT(slow[0].at("own_step_seconds"), slow[0].at("median_rank_seconds"));
  const std::string all = fmt::format("own milliseconds by rank: {}", fmt::join(own, ", "));
  for (const std::string& text : texts) {
    EXPECT_EQ(times_in(text, "slow: rank"), 1) << text;
    EXPECT_EQ(text.find("slow: rank 2 works "), 0u) << text << all;
  }
}

}  // namespace
}  // namespace recollect::test::hung_ranks_test
