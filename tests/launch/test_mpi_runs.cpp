// Ranks that are processes under mpirun, over MPI and over shared memory: the numbers of rank threads, and an
// end for all when one ends.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "checkpointing/device_file.h"
#include "tests/launch/process.h"
#include "tests/launch/traces.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::mpi_runs_test {
namespace {

using namespace std::chrono_literals;

// It knows nothing of the MPI library's locks, and would report races that are none.
void skip_what_thread_sanitizer_cannot_see(const std::string& communicator) {
#ifdef __SANITIZE_THREAD__
  if (communicator == "mpi") GTEST_SKIP() << "MPI under ThreadSanitizer";
#else
  (void)communicator;
#endif
}

struct MpiRunsLayout {
  const char* communicator;
  int tensor, data;
  bool sequence_parallel;

  int ranks() const { return tensor * data; }
  Words words() const {
    return {"parallelism.tensor_parallel_size=" + std::to_string(tensor),
            "parallelism.data_parallel_size=" + std::to_string(data),
            std::string("parallelism.sequence_parallel=") + (sequence_parallel ? "true" : "false")};
  }
};

void PrintTo(const MpiRunsLayout& l, std::ostream* out) {
  *out << l.communicator << " tensor " << l.tensor << " data " << l.data
       << (l.sequence_parallel ? " sequence" : "");
}

class Processes : public ::testing::TestWithParam<MpiRunsLayout> {
 protected:
  void SetUp() override { skip_what_thread_sanitizer_cannot_see(GetParam().communicator); }
};

TEST_P(Processes, AgreeWithOneRank) {
  const MpiRunsLayout& layout = GetParam();
  static const Trained one = train(kTinyYaml);
  const Workplace place;
  const Traces traces;
  const Finished finished = place.train_under_mpirun(
      layout.ranks(),
      layout.words() + Words{std::string("parallelism.communicator=") + layout.communicator,
                             "debug.dump_gradients=g.safetensors", "checkpoint.save_model=true"},
      traces.environment());
  traces.expect_none();
  ASSERT_EQ(finished.status, 0) << finished.out << finished.err;
  EXPECT_NE(finished.out.find(std::string("(") + layout.communicator + ")"), std::string::npos)
      << finished.out;
  const auto metrics = place.metrics();
  ASSERT_EQ(metrics.size(), one.steps.size());
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    EXPECT_NEAR(metrics[i]["loss"], one.steps[i].loss, 1e-12 * one.steps[i].loss);
    EXPECT_NEAR(metrics[i]["grad_norm"], one.steps[i].grad_norm, 1e-12 * one.steps[i].grad_norm);
  }
  EXPECT_LE(largest_difference(read_tensors(place.file("g.safetensors"), ""), one.gradients), 1e-12);
  EXPECT_LE(largest_difference(read_tensors(place.file("out/model.safetensors"), ""), one.parameters), 1e-12);
  for (int rank = 0; rank < layout.ranks(); ++rank)
    EXPECT_TRUE(std::filesystem::exists(place.file("out/memory.rank" + std::to_string(rank) + ".json")));
}

// The communicators' own memory, which lies outside the arenas, is predicted too.
TEST_P(Processes, TakeTheBuffersThatWerePredicted) {
  const MpiRunsLayout& layout = GetParam();
  const Workplace place;
  const Words words = layout.words() + Words{std::string("parallelism.communicator=") + layout.communicator};
  const Finished predicted = place.recollect(Words{"estimate", "c.yaml", "--json"} + words);
  ASSERT_EQ(predicted.status, 0) << predicted.err;
  const auto estimate = nlohmann::json::parse(predicted.out);
  EXPECT_EQ(estimate["communicator"], layout.communicator);
  ASSERT_EQ(estimate["communication_buffers"].size(), 1u);
  const auto predicted_bytes = estimate["communication_buffers"][layout.communicator];
  ASSERT_GT(predicted_bytes, 0);
  const Finished finished = place.train_under_mpirun(layout.ranks(), words);
  ASSERT_EQ(finished.status, 0) << finished.out << finished.err;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    std::ifstream file(place.file("out/memory.rank" + std::to_string(rank) + ".json"));
    const auto measured = nlohmann::json::parse(file);
    EXPECT_EQ(measured["communication_buffers"], predicted_bytes) << "rank " << rank;
    EXPECT_EQ(measured["measured"], estimate["memory"]) << "rank " << rank;
  }
}

std::string mpi_layout_name(const ::testing::TestParamInfo<MpiRunsLayout>& info) {
  const MpiRunsLayout& l = info.param;
  return std::string(l.communicator) + "Tensor" + std::to_string(l.tensor) + "Data" + std::to_string(l.data) +
         (l.sequence_parallel ? "Sequence" : "");
}

INSTANTIATE_TEST_SUITE_P(
    All, Processes,
    ::testing::Values(MpiRunsLayout{"mpi", 2, 1, false}, MpiRunsLayout{"mpi", 4, 1, true},
                      MpiRunsLayout{"mpi", 1, 2, false}, MpiRunsLayout{"mpi", 2, 2, true},
                      MpiRunsLayout{"local", 2, 1, false}, MpiRunsLayout{"local", 4, 1, true},
                      MpiRunsLayout{"local", 1, 2, false}, MpiRunsLayout{"local", 2, 2, true}),
    mpi_layout_name);

class Launched : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { skip_what_thread_sanitizer_cannot_see(GetParam()); }
  Words two_ranks() const {
    return {"parallelism.tensor_parallel_size=2", std::string("parallelism.communicator=") + GetParam()};
  }
};

TEST_P(Launched, RanksOfDifferentConfigurationsSaySo) {
  const Workplace place;
  const Words rank = Words{"-np", "1", recollect_binary(), "train", "c.yaml"} + two_ranks();
  const Words command =
      mpirun() + rank + Words{"optimizer.momentum=0.8", ":"} + rank + Words{"training.seed=8"};
  const Finished finished = Process(command, place.folder().path()).wait(Workplace::kBound);
  EXPECT_EQ(finished.status, 8) << finished.err;
  for (const char* text :
       {"the ranks have different configurations", "optimizer.momentum: 0.8 on rank 0; 0.9 on rank 1",
        "training.seed: 7 on rank 0; 8 on rank 1"})
    EXPECT_NE(finished.err.find(text), std::string::npos) << text << "\n" << finished.err;
  EXPECT_TRUE(place.metrics().empty());
}

// A file of the same name that says something else on another node.
TEST_P(Launched, RanksOfDifferentDeviceModelsSaySo) {
  const Workplace place;
  DeviceModel device = device_preset("cpu");
  for (const char* folder : {"a", "b"}) {
    ASSERT_TRUE(std::filesystem::create_directory(place.file(folder)));
    place.folder().write(std::string(folder) + "/device.yaml", to_yaml(device));
    device.to_host_bandwidth = 1e6;
  }
  const auto rank = [&](const char* folder) {
    return Words{"-np",
                 "1",
                 "-wdir",
                 place.file(folder),
                 recollect_binary(),
                 "train",
                 place.file("c.yaml"),
                 "device.model=device.yaml"} +
           two_ranks();
  };
  const Finished finished =
      Process(mpirun() + rank("a") + Words{":"} + rank("b"), place.folder().path()).wait(Workplace::kBound);
  EXPECT_EQ(finished.status, 8) << finished.err;
  EXPECT_NE(finished.err.find("to_host_bandwidth: 1000000 on rank 1; 6000000000 on rank 0"),
            std::string::npos)
      << finished.err;
}

TEST_P(Launched, TheWrongNumberOfRanksIsRefused) {
  const Workplace place;
  const Finished finished = place.train_under_mpirun(3, two_ranks());
  EXPECT_EQ(finished.status, 2) << finished.err;
  EXPECT_NE(finished.err.find("a world of 3 ranks cannot be divided into groups of tensor_parallel_size 2"),
            std::string::npos)
      << finished.err;
}

TEST_P(Launched, ErrorsKeepTheirExitStatus) {
  const Workplace place;
  EXPECT_EQ(place.train_under_mpirun(2, two_ranks() + Words{"training.seed=x"}).status, 2);
  EXPECT_EQ(place.train_under_mpirun(2, two_ranks() + Words{"data.format=jsonl", "data.path=nothing"}).status,
            3);
  EXPECT_EQ(place.train_under_mpirun(2, two_ranks() + Words{"device.memory_limit=1KiB"}).status, 4);
  EXPECT_EQ(place.train_under_mpirun(2, two_ranks() + Words{"output_dir=c.yaml/x"}).status, 6);
  EXPECT_EQ(place
                .train_under_mpirun(
                    2, two_ranks() + Words{"optimizer.learning_rate=1e300", "optimizer.max_grad_norm=0"})
                .status,
            7);
}

TEST_P(Launched, ARankThatIsKilledEndsTheRun) {
  const Workplace place;
  const Traces traces;
  Process run(mpirun() + Words{"-np", "2", recollect_binary(), "train", "c.yaml"} + two_ranks() +
                  Words{"training.max_steps=2000000"},
              place.folder().path(), traces.environment());
  const auto training = [&] {
    return std::filesystem::exists(place.file("out/metrics.jsonl")) &&
           std::filesystem::file_size(place.file("out/metrics.jsonl")) > 1000;
  };
  ASSERT_TRUE(wait_until(training)) << run.wait(1s).err;
  const std::vector<pid_t> ranks = descendants(run.pid(), "recollect");
  ASSERT_EQ(ranks.size(), 2u);
  ASSERT_EQ(::kill(ranks[1], SIGKILL), 0);
  const auto start = std::chrono::steady_clock::now();
  const Finished finished = run.wait(60s);
  EXPECT_NE(finished.status, 0);
  EXPECT_NE(finished.status, kNotInTime);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 30s) << "a lost rank must be noticed quickly";
  traces.expect_none();
}

INSTANTIATE_TEST_SUITE_P(Communicators, Launched, ::testing::Values("mpi", "local"),
                         [](const ::testing::TestParamInfo<const char*>& info) {
                           return std::string(info.param);
                         });

}  // namespace
}  // namespace recollect::test::mpi_runs_test
