// Ranks that are processes with a fake CUDA each, over the fake NCCL.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "launch/config/read.h"
#include "launch/ranks/world.h"
#include "launch/train/session.h"
#include "tests/comm/device_nccl.h"
#include "tests/comm/ranks.h"
#include "tests/engine/temporary_folder.h"
#include "tests/gpu/fake_cuda/training.h"

namespace recollect::fake_cuda {

class FakeRanks : public FakeCuda {
 protected:
  using AfterStep = std::function<void(int64_t step, Session& session)>;

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
  static std::vector<double> numbers(Communicator& world, const std::string& yaml, const Words& words,
                                     const Settings& settings, bool replayed, const AfterStep& after = {},
                                     const ProgramParts& parts = {}) {
    restart(settings);
    Config config = read_config_text("test.yaml", yaml, words);
    resolve_world(config, world.size());
    std::vector<double> all;
    {
      Session session(config, world, parts);
      for (int64_t step = 0; step < config.training.max_steps; ++step) {
        const StepResult result = session.step();
        all.insert(all.end(), {result.loss, result.grad_norm});
        if (after) after(step, session);
      }
      const MemoryLedger predicted = session.executor().program().predicted();
      require(predicted == session.executor().measured(), "memory is what was predicted");
      world.barrier();
    }
    require(replayed == (fake_cuda::world().replays > 0), "steps are replayed where they may be");
    require(fake_cuda::world().what_is_left().empty(), fake_cuda::world().what_is_left());
    require(nccl().windows == 0 && nccl().spoilt_windows == 0, "windows are closed before their memory goes");
    return all;
  }
  // Of kTinyOnCuda.
  static std::vector<double> numbers(Communicator& world, const Words& words, const Settings& settings,
                                     bool replayed, const AfterStep& after = {},
                                     const ProgramParts& parts = {}) {
    return numbers(world, kTinyOnCuda, words, settings, replayed, after, parts);
  }

  // Of the collectives in windows.
  static std::vector<std::pair<std::string, int>> kernels_so_far() {
    const FakeNcclControl& c = nccl();
    return {{"sums", c.symmetric_sums},
            {"gathers", c.symmetric_gathers},
            {"scatters", c.symmetric_scatters},
            {"copies", c.gathers_by_copy}};
  }

  static FakeNcclControl& nccl() {
    return *static_cast<FakeNcclControl*>(::dlsym(test::fake_nccl(), "fake_nccl_control"));
  }

 private:
  const test::TemporaryFolder folder_;
};

}  // namespace recollect::fake_cuda
