// Training under `recollect run`: the numbers of one rank, over shared memory, with no MPI; and under
// PyTorch's own torchrun.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>

#include "engine/io/node.h"
#include "tests/launch/run_support.h"

namespace recollect::test::run_training_test {
namespace {

using namespace std::chrono_literals;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

Words tensor_data(int tensor, int data) {
  return {"parallelism.tensor_parallel_size=" + std::to_string(tensor),
          "parallelism.data_parallel_size=" + std::to_string(data)};
}

void expect_the_losses_of_one_rank(const Workplace& place) {
  const Workplace alone;
  ASSERT_EQ(alone.train({}).status, 0);
  const auto expected = alone.metrics(), metrics = place.metrics();
  ASSERT_EQ(metrics.size(), expected.size());
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    const double loss = expected[i]["loss"];
    EXPECT_NEAR(metrics[i]["loss"], loss, 1e-12 * loss);
  }
}

class RunTraining : public ::testing::TestWithParam<std::pair<int, int>> {};

TEST_P(RunTraining, IsThatOfOneRank) {
  const auto [tensor, data] = GetParam();
  Launch launch(Words{"--standalone", "--nproc-per-node", std::to_string(tensor * data), "train", "c.yaml"} +
                tensor_data(tensor, data));
  const Finished finished = launch.finish(Workplace::kBound);
  ASSERT_EQ(finished.status, 0) << finished.out << finished.err;
  const std::string world = "[rank0]: gpt2: ", layout = std::to_string(data) + " data x " +
                                                        std::to_string(tensor) + " tensor ranks (local)";
  EXPECT_NE(finished.out.find(world), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find(layout), std::string::npos) << finished.out;
  expect_the_losses_of_one_rank(launch.place());
}

INSTANTIATE_TEST_SUITE_P(Layouts, RunTraining,
                         ::testing::Values(std::pair{2, 1}, std::pair{1, 2}, std::pair{2, 2},
                                           std::pair{4, 1}),
                         [](const auto& info) {
                           return "Tensor" + std::to_string(info.param.first) + "Data" +
                                  std::to_string(info.param.second);
                         });

// How the ranks talk is left to who starts them, and what that takes is predicted.
TEST(RunTrainings, TakeTheBuffersThatWerePredicted) {
  Launch launch(Words{"--nproc-per-node=2", "train", "c.yaml"} + tensor_data(2, 1));
  ASSERT_EQ(launch.finish(Workplace::kBound).status, 0);
  const Finished predicted =
      launch.place().recollect(Words{"estimate", "c.yaml", "--json"} + tensor_data(2, 1));
  ASSERT_EQ(predicted.status, 0) << predicted.err;
  const auto bytes = nlohmann::json::parse(predicted.out).at("communication_buffers");
  EXPECT_EQ(bytes.size(), 3u);  // mpi and tcp too
  ASSERT_GT(bytes.at("local"), 0);
  for (const char* rank : {"0", "1"}) {
    const auto taken = nlohmann::json::parse(
        test::TemporaryFolder::read(launch.file(std::string("out/memory.rank") + rank + ".json")));
    EXPECT_EQ(taken.at("communication_buffers"), bytes.at("local"));
  }
}

TEST(RunTrainings, TwoOfTheSameNameAtOnce) {
  const Words words = Words{"--nproc-per-node=2", "--run-id=same", "train", "c.yaml"} + tensor_data(2, 1);
  Launch one(words), other(words);
  EXPECT_EQ(one.finish(Workplace::kBound).status, 0);
  EXPECT_EQ(other.finish(Workplace::kBound).status, 0);
  expect_the_losses_of_one_rank(one.place());
  expect_the_losses_of_one_rank(other.place());
}

Launch endless() {
  return Launch(
      Words{"--nproc-per-node=2", "train", "c.yaml", "training.max_steps=2000000", "logging.steps=1000000"} +
      tensor_data(2, 1));
}

bool trains(const Launch& launch) {
  return wait_until([&] {
    const std::string file = launch.file("out/metrics.jsonl");
    return std::filesystem::exists(file) && std::filesystem::file_size(file) > 1000;
  });
}

// The launcher hosts the store where its ranks meet; behind another program, rank 0 does.
TEST(RunTrainings, MeetInTheLaunchersStore) {
  const Words words = Words{"train", "c.yaml", "parallelism.communicator=tcp"} + tensor_data(2, 1);
  for (const Words& program : {words, shell("exec \"$0\" \"$@\"") + Words{recollect_binary()} + words}) {
    Launch launch(Words{"--nproc-per-node=2"} + program);
    const Finished finished = launch.finish(Workplace::kBound);
    ASSERT_EQ(finished.status, 0) << finished.out << finished.err;
    EXPECT_NE(finished.out.find("2 tensor ranks (tcp)"), std::string::npos) << finished.out;
    expect_the_losses_of_one_rank(launch.place());
  }
  Launch said(Words{"--nproc-per-node=2"} + words + Words{"training.max_steps=2000000"});
  ASSERT_TRUE(trains(said)) << said.err();
  for (const pid_t rank : said.ranks()) EXPECT_EQ(variable_of(rank, "RECOLLECT_STORE"), "launcher");
  said.signal(SIGTERM);
  EXPECT_EQ(said.finish().status, 143);
}

TEST(RunTrainings, MeetAgainAfterARestart) {
  for (const Words& port : {Words{}, Words{"--master-port=" + std::to_string(free_port())}}) {
    Launch launch(Words{"--nproc-per-node=2", "--max-restarts=1"} + port +
                  Words{"train", "c.yaml", "parallelism.communicator=tcp", "training.max_steps=2000000",
                        "logging.steps=1000000"} +
                  tensor_data(2, 1));
    ASSERT_TRUE(trains(launch)) << launch.err();
    ::kill(launch.ranks().front(), SIGKILL);
    const auto again = [&] {
      const auto ranks = launch.ranks();
      return !ranks.empty() && variable_of(ranks.front(), "TORCHELASTIC_RESTART_COUNT") == "1";
    };
    ASSERT_TRUE(wait_until(again)) << launch.err();
    ASSERT_TRUE(wait_until(
        [&] { return launch.out().find("(tcp)", launch.out().find("(tcp)") + 1) != std::string::npos; }));
    ASSERT_TRUE(trains(launch)) << launch.err();
    launch.signal(SIGTERM);
    EXPECT_EQ(launch.finish().status, 143);
  }
}

TEST(RunTrainings, AnswerTheSignalThatAsksForAReport) {
  Launch launch = endless();
  ASSERT_TRUE(trains(launch)) << launch.err();
  launch.signal(SIGUSR2);
  for (const char* line : {"[rank0]: rank 0 after step ", "[rank1]: rank 1 after step ",
                           "[rank0]: rank 0, MiB", "[rank1]: rank 1, MiB"})
    EXPECT_TRUE(wait_until([&] { return launch.out().find(line) != std::string::npos; }))
        << line << launch.out();
  launch.signal(SIGTERM);
  EXPECT_EQ(launch.finish().status, 143);
}

TEST(RunTrainings, ARankThatIsKilledIsTheCause) {
  Launch launch = endless();
  ASSERT_TRUE(trains(launch)) << launch.err();
  for (const pid_t rank : launch.ranks())
    if (variable_of(rank, "RANK") == "1") ::kill(rank, SIGKILL);
  const auto start = std::chrono::steady_clock::now();
  const Finished finished = launch.finish(30s);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  EXPECT_EQ(finished.status, 137) << finished.err;
  for (const char* text : {"rank 1 FAILED: SIGKILL (signal 9)", "\n  rank 0 (pid "})
    EXPECT_NE(finished.err.find(text), std::string::npos) << text << "\n" << finished.err;
}

// Each has read its own; whoever knows first leaves the others time to hear what all know.
TEST(RunTrainings, RanksOfDifferentConfigurationsAllSaySo) {
  Launch launch(Words{"--nproc-per-node=4"} +
                shell("exec \"$0\" train c.yaml training.seed=$RANK parallelism.communicator=tcp "
                      "parallelism.data_parallel_size=4") +
                Words{recollect_binary()});
  const Finished finished = launch.finish(Workplace::kBound);
  EXPECT_EQ(finished.status, 8) << finished.err;
  EXPECT_EQ(times_in(finished.err, "training.seed: 0 on rank 0; 1 on rank 1; 2 on rank 2; 3 on rank 3"), 1)
      << finished.err;
  EXPECT_EQ(times_in(finished.err, "cannot finish"), 0) << finished.err;
}

// They look for each other at different places.
TEST(RunTrainings, RanksOfDifferentCommunicatorsNameThem) {
  Launch launch(Words{"--nproc-per-node=2"} +
                shell("[ $RANK = 0 ] && kind=local || kind=tcp; exec \"$0\" train c.yaml "
                      "parallelism.communicator=$kind parallelism.timeout_seconds=1 "
                      "parallelism.data_parallel_size=2") +
                Words{recollect_binary()});
  const Finished finished = launch.finish(Workplace::kBound);
  EXPECT_EQ(finished.status, 9) << finished.err;
  for (const char* text :
       {"parallelism.communicator of rank 0 is local", "parallelism.communicator of rank 1 is tcp"})
    EXPECT_NE(finished.err.find(text), std::string::npos) << text << "\n" << finished.err;
}

TEST(RunTrainings, ErrorsKeepTheirExitStatus) {
  const auto status = [](const Words& words) {
    Launch launch(Words{"--nproc-per-node=2", "train", "c.yaml", "parallelism.tensor_parallel_size=2"} +
                  words);
    return launch.finish(Workplace::kBound).status;
  };
  EXPECT_EQ(status({"training.seed=x"}), 2);
  EXPECT_EQ(status({"data.format=jsonl", "data.path=nothing"}), 3);
  EXPECT_EQ(status({"device.memory_limit=1KiB"}), 4);
  EXPECT_EQ(status({"output_dir=c.yaml/x"}), 6);
  EXPECT_EQ(status({"optimizer.learning_rate=1e300", "optimizer.max_grad_norm=0"}), 7);
}

TEST(RunTrainings, StockTorchrunDoesIt) {
  const Workplace place;
  if (Process({"sh", "-c", "command -v torchrun"}, place.folder().path()).wait(25s).status != 0)
    GTEST_SKIP() << "torchrun is not installed";
  const Traces traces;
  const Finished finished = Process(Words{"torchrun", "--no-python", "--nproc-per-node", "2",
                                          recollect_binary(), "train", "c.yaml"} +
                                        tensor_data(2, 1),
                                    place.folder().path(), traces.environment())
                                .wait(Workplace::kBound);
  traces.expect_none();
  ASSERT_EQ(finished.status, 0) << finished.out << finished.err;
  EXPECT_NE(finished.out.find("2 tensor ranks (local)"), std::string::npos) << finished.out;
  expect_the_losses_of_one_rank(place);
}

// Seconds from the start to the line about the first step.
double seconds_to_first_step(int ranks) {
  const std::string source = RECOLLECT_SOURCE_DIR;
  const auto start = std::chrono::steady_clock::now();
  Launch launch(Words{"--nproc-per-node", std::to_string(ranks), "train", source + "/configs/gpt2-tiny.yaml",
                      "data.path=" + source + "/examples/text", "training.max_steps=1", "device.threads=1",
                      "checkpoint.save_model=false"} +
                    tensor_data(ranks, 1),
                {{"OMP_NUM_THREADS", "1"}});
  EXPECT_TRUE(wait_until([&] { return launch.out().find("step 1/1 ") != std::string::npos; }));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_EQ(launch.finish().status, 0) << launch.err();
  return seconds;
}

TEST(RunTrainings, FourRanksStartNearlyAsFastAsOne) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's start is not ours";
  double one = 1e9, four = 1e9;
  for (int times = 0; times < 3; ++times) {
    one = std::min(one, seconds_to_first_step(1));
    four = std::min(four, seconds_to_first_step(4));
  }
  std::printf("first step after %.3f s with one rank, %.3f s with four\n", one, four);
  EXPECT_LE(four, one + 1.0);
}

}  // namespace
}  // namespace recollect::test::run_training_test
