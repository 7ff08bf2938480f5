// Ranks that are processes with a device each, over the fake NCCL: their steps are replayed, and a rank that is lost in
// the middle of one is named. Tensor ranks open windows on each other's memory.
#include <algorithm>
#include <csignal>

#include "comm/cuda/runtime.h"
#include "engine/runtime/cuda/device.h"
#include "tests/gpu/fake_cuda/ranks.h"

namespace recollect::fake_cuda {
namespace {

using test::Outcome;

TEST_F(FakeRanks, ReplayTheirStepsWithTheBitsOfLaunches) {
  const Words tensor = {"parallelism.tensor_parallel_size=2"}, data = {"parallelism.data_parallel_size=2"};
  const Words moved = {"parallelism.tensor_parallel_size=2", "activation_checkpointing.mode=full",
                       "activation_checkpointing.partition_activations=true",
                       "activation_checkpointing.cpu_checkpointing=true"};
  expect_fine(test::run_as_processes(2, [&](Communicator& world) {
    const auto same = [&](Words launched, const Words& replayed, RunOrder order) {
      launched.push_back("device.cuda_graph=off");
      require(numbers(world, launched, {.devices = 2}, false) ==
                  numbers(world, replayed, {.devices = 2, .order = order}, true),
              "a replayed step has the bits of one that is launched");
    };
    same(tensor, moved, RunOrder::kLate);
    same(tensor, moved, RunOrder::kRandom);
    same(data, data, RunOrder::kEarly);
  }));
}

TEST_F(FakeRanks, OneThatIsLostInAReplayedStepIsNamed) {
  const std::vector<Outcome> outcomes = test::run_as_processes(2, [](Communicator& world) {
    numbers(world, {"parallelism.tensor_parallel_size=2", "training.max_steps=5"}, {.devices = 2}, true,
            [&](int64_t step, Session&) {
              if (step == 2 && world.rank() == 1) ::raise(SIGKILL);
            });
  });
  EXPECT_EQ(outcomes[0].code, ExitCode::kPeerLost) << outcomes[0].message;
  EXPECT_NE(outcomes[0].message.find("rank 1"), std::string::npos) << outcomes[0].message;
  EXPECT_EQ(static_cast<int>(outcomes[1].code), 128 + SIGKILL);
}

TEST_F(FakeRanks, OneThatDoesNotComeIsWaitedForAsLongAsTheConfigurationSays) {
  const Words patient = {"parallelism.tensor_parallel_size=2", "parallelism.timeout_seconds=1"};
  const std::vector<Outcome> outcomes = test::run_as_processes(2, [&](Communicator& world) {
    numbers(world, patient, {.devices = 2}, true, [&](int64_t step, Session&) {
      if (step == 0 && world.rank() == 1) world.barrier();
    });
  });
  EXPECT_EQ(outcomes[0].code, ExitCode::kPeerLost);
  EXPECT_NE(outcomes[0].message.find("rank 1 did not come within 1 s"), std::string::npos)
      << outcomes[0].message;
}

// One that went on without a graph would not be in step with the others.
TEST_F(FakeRanks, AllReplayOrNoneDoes) {
  const std::vector<Outcome> outcomes = test::run_as_processes(2, [](Communicator& world) {
    Impatient probe;
    numbers(world, {"parallelism.tensor_parallel_size=2"}, {.devices = 2}, true, {},
            {.edit_program = {}, .probe = world.rank() == 1 ? &probe : nullptr});
  });
  EXPECT_EQ(outcomes[0].code, ExitCode::kPeerLost) << outcomes[0].message;
  EXPECT_EQ(outcomes[1].code, ExitCode::kInternal);
  EXPECT_NE(outcomes[1].message.find("cannot be captured as a CUDA graph"), std::string::npos)
      << outcomes[1].message;
}

// Of tensor ranks for the collectives of both streams, and for gathers where there are some; of data ranks for those of
// gradients and parameters. All of them go through the windows.
TEST_F(FakeRanks, OpenWindowsOnEachOthersMemory) {
  const std::string tensor = "tensor_parallel_size", data = "data_parallel_size";
  struct Case {
    std::string ranks;
    Words words;
    int windows;
    std::string kernels, said;
  };
  const std::string parts = "reduce-scatters and all-gathers";
  const std::vector<Case> cases = {
      {tensor, {}, 2, "sums ", "all-reduces"},
      {tensor,
       {"activation_checkpointing.mode=full", "activation_checkpointing.partition_activations=true"},
       3,
       "sums copies ",
       "all-reduces"},
      {tensor,
       {"parallelism.sequence_parallel=true", "data.sequence_length=6"},
       3,
       "sums gathers scatters copies ",
       "all-reduces, " + parts},
      {data, {}, 1, "sums ", "all-reduces"},
      {data, {"parallelism.zero_stage=1"}, 1, "gathers scatters ", parts},
      {data, {"parallelism.zero_stage=2"}, 1, "gathers scatters ", parts},
      {data, {"parallelism.zero_stage=3"}, 1, "gathers scatters ", parts}};
  expect_fine(test::run_as_processes(2, [&](Communicator& world) {
    for (const auto& [ranks, words, windows, kernels, said] : cases) {
      const auto before = kernels_so_far();
      const std::string key = "parallelism." + ranks, name = words.empty() ? key : words.back();
      Words all = words;
      all.push_back(key + "=2");
      numbers(world, all, {.devices = 2}, true, [&](int64_t, Session& session) {
        require(nccl().windows == windows, name + ": other windows");
        for (const Remark& remark : session.training_program().remarks)
          if (remark.key == key)
            return require(remark.sentence.starts_with(said + " go through windows"), remark.sentence);
        require(false, name + ": nothing is said");
      });
      std::string seen;
      const auto now = kernels_so_far();
      for (std::size_t i = 0; i < now.size(); ++i)
        if (now[i].second > before[i].second) seen += now[i].first + " ";
      require(seen == kernels, name + ": " + seen);
    }
  }));
}

// Data ranks whose batches have other lengths run other programs at the same time, as the two do here in every step.
TEST_F(FakeRanks, OfDataOpenNoWindowsForSeveralLengths) {
  const test::TemporaryFolder folder;
  std::string text;
  for (int step = 0; step < 4; ++step)
    text += "{\"input_ids\": [1, 2, 3, 4, 5, 6, 7]}\n{\"input_ids\": [3, 2, 1]}\n";
  const Words words = {"parallelism.data_parallel_size=2",
                       "parallelism.zero_stage=2",
                       "data.format=jsonl",
                       "data.path=" + folder.write("lines.jsonl", text),
                       "data.shuffle=false",
                       "data.padding=longest",
                       "data.pad_to_multiple_of=4",
                       "data.sequence_length=8"};
  expect_fine(test::run_as_processes(2, [&](Communicator& world) {
    numbers(world, words, {.devices = 2}, true,
            [](int64_t, Session&) { require(nccl().windows == 0, "there are no windows"); });
  }));
}

// What one rank writes in another one's memory is at the same place in its own.
TEST_F(FakeRanks, OpenNoWindowsOnOtherLayouts) {
  expect_fine(test::run_as_processes(2, [](Communicator& world) {
    const auto edit = [&](TrainingProgram& training) {
      Program& program = training.program;
      const auto none = std::find(program.workspaces.begin(), program.workspaces.end(), 0u);
      if (world.rank() == 1)
        program.layout.workspace_offsets.at(none - program.workspaces.begin()) += kAlignment;
    };
    numbers(world, {"parallelism.tensor_parallel_size=2"}, {.devices = 2}, true,
            [](int64_t, Session&) { require(nccl().windows == 0, "there are no windows"); },
            {.edit_program = edit, .probe = nullptr});
  }));
}

// No handle of the memory is left behind, which would keep it.
TEST_F(FakeRanks, AnArenaCanBeMadeToBeShared) {
  const auto device = cuda::make_device({.shareable = true}), other = cuda::make_device({});
  const Arena arena = device->reserve(MemorySpace::kDevice, 64),
              plain = other->reserve(MemorySpace::kDevice, 64);
  const auto runtime = cuda::make_device_runtime(0);
  EXPECT_TRUE(runtime->is_shareable(arena.at(0)));
  EXPECT_FALSE(runtime->is_shareable(plain.at(0)));
}

// NCCL takes the device that is current.
TEST_F(FakeRanks, ARuntimeMakesItsDeviceCurrentAndItsWordsZero) {
  restart({.devices = 2});
  cuda::check(cudaSetDevice(0), "");
  const auto runtime = cuda::make_device_runtime(1);
  int current = 0;
  cuda::check(cudaGetDevice(&current), "");
  EXPECT_EQ(current, 1);
  const std::shared_ptr<uint32_t> words = runtime->make_words(3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(words.get()[i], 0u);
  cuda::check(cudaSetDevice(0), "");
}

}  // namespace
}  // namespace recollect::fake_cuda
