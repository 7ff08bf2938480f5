// Trains on a fake CUDA that is made for it, and to which everything is given back.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/gpu/fake_cuda/fixture.h"
#include "tests/launch/training_harness.h"

namespace recollect::fake_cuda {

using Words = std::vector<std::string>;

inline Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

inline const Words kLaunched = {"device.cuda_graph=off"};
inline const Words kHost = {"activation_checkpointing.mode=full",
                            "activation_checkpointing.cpu_checkpointing=true",
                            "activation_checkpointing.keep_last=0"};

class FakeTraining : public FakeCuda {
 protected:
  static test::Trained train_in(const Settings& settings, const std::string& yaml, const Words& words,
                                const std::function<ProgramParts(int)>& parts = {}) {
    restart(settings);
    test::Trained trained = test::train(yaml, words, parts);
    EXPECT_EQ(world().what_is_left(), "");
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "libraries would take it for their own";
    return trained;
  }
  // kTinyOnCuda.
  static test::Trained train_in(const Settings& settings, const Words& words,
                                const std::function<ProgramParts(int)>& parts = {}) {
    return train_in(settings, kTinyOnCuda, words, parts);
  }

  static void expect_replays(int64_t replays) { EXPECT_EQ(world().replays, replays); }
};

}  // namespace recollect::fake_cuda
