// Ranks that are processes with a device each, over the fake NCCL: their steps are replayed, and a rank that is lost in
// the middle of one is named.
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "launch/config/read.h"
#include "launch/ranks/world.h"
#include "launch/train/session.h"
#include "tests/comm/ranks.h"
#include "tests/engine/temporary_folder.h"
#include "tests/gpu/fake_cuda/fixture.h"

namespace recollect::fake_cuda {
namespace {

using test::Outcome;
using Words = std::vector<std::string>;

class FakeRanks : public FakeCuda {
 protected:
  void SetUp() override {
    FakeCuda::SetUp();
    std::filesystem::create_symlink(RECOLLECT_FAKE_NCCL, folder_.file("libnccl.so.2"));
    ::setenv("RECOLLECT_NVIDIA_LIBRARIES", folder_.path().c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("RECOLLECT_NVIDIA_LIBRARIES");
    FakeCuda::TearDown();
  }

  // Each rank's losses and gradient norms. `after` is called by each rank after each of its steps.
  static std::vector<double> numbers(Communicator& world, const Words& words, const Settings& settings,
                                     bool replayed, const std::function<void(int64_t)>& after = {}) {
    restart(settings);
    Config config = read_config_text("test.yaml", kTinyOnCuda, words);
    resolve_world(config, world.size());
    std::vector<double> all;
    {
      Session session(config, world);
      for (int64_t step = 0; step < config.training.max_steps; ++step) {
        const StepResult result = session.step();
        all.insert(all.end(), {result.loss, result.grad_norm});
        if (after) after(step);
      }
      const MemoryLedger predicted = session.executor().program().predicted();
      require(predicted == session.executor().measured(), "memory is what was predicted");
      world.barrier();
    }
    require(replayed == (fake_cuda::world().replays > 0), "steps are replayed where they may be");
    require(fake_cuda::world().what_is_left().empty(), fake_cuda::world().what_is_left());
    return all;
  }

 private:
  const test::TemporaryFolder folder_;
};

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
            [&](int64_t step) {
              if (step == 2 && world.rank() == 1) ::raise(SIGKILL);
            });
  });
  EXPECT_EQ(outcomes[0].code, ExitCode::kPeerLost) << outcomes[0].message;
  EXPECT_NE(outcomes[0].message.find("rank 1"), std::string::npos) << outcomes[0].message;
  EXPECT_EQ(static_cast<int>(outcomes[1].code), 128 + SIGKILL);
}

}  // namespace
}  // namespace recollect::fake_cuda
