// A rank's threads decide no bit of its training; its instructions do, and are what was asked for.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cstring>

#include "comm/communicator.h"
#include "engine/ops/cpu_level.h"
#include "launch/config/read.h"
#include "launch/config/validate.h"
#include "launch/train/session.h"
#include "tests/launch/process.h"

namespace recollect::test::threads_test {
namespace {

constexpr char kYaml[] = R"(
model: {type: gpt2, n_layer: 2, n_embd: 48, n_head: 3, vocab_size: 211, n_positions: 64}
data: {format: random, sequence_length: 64}
training: {micro_batch_size: 5, max_steps: 4}
optimizer: {learning_rate: 1e-3, max_grad_norm: 1.0}
device: {backend: cpu}
)";

const Words kCpu = {"device.backend=cpu", "training.precision=fp32"};

struct Trained {
  std::vector<double> losses;
  std::vector<std::vector<std::byte>> parameters;
  bool operator==(const Trained&) const = default;
};

Trained train(const std::string& precision, int threads, const Words& words = {}) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  Config config = read_config_text("threads.yaml", kYaml, Words{"training.precision=" + precision} + words);
  const std::unique_ptr<Communicator> world = make_self_communicator();
  resolve_world(config, 1);
  Session session(config, *world);
  Trained trained;
  for (int step = 0; step < 4; ++step) trained.losses.push_back(session.step().loss);
  for (const Parameter& p : session.training_program().model.parameters) {
    const Tensor t = session.executor().tensor(p.value);
    const auto* bytes = static_cast<const std::byte*>(t.data);
    trained.parameters.emplace_back(bytes, bytes + t.bytes());
  }
  omp_set_num_threads(before);
  return trained;
}

TEST(Threads, DecideNoBitOfTraining) {
  for (const char* precision : {"fp32", "bf16"}) {
    const Trained one = train(precision, 1);
    for (const int threads : {2, 3})
      EXPECT_TRUE(train(precision, threads) == one) << precision << " on " << threads << " threads";
  }
}

// Every set of instructions that this processor and this build have.
TEST(Isa, IsTheOneAskedForAndChangesNoBitWhateverIsCheckpointed) {
  for (const CpuLevel& level : cpu_levels()) {
    if (!can_run(level.isa)) continue;
    const std::string isa(name_of(level.isa));
    for (const char* precision : {"fp32", "bf16"}) {
      const Trained plain = train(precision, 2, {"device.isa=" + isa});
      const Trained full = train(precision, 2, {"device.isa=" + isa, "activation_checkpointing.mode=full"});
      EXPECT_TRUE(plain == full) << precision << " with " << isa;
    }
    const Workplace place;
    const Finished run = place.train(kCpu + Words{"device.isa=" + isa, "training.max_steps=1"});
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_NE(TemporaryFolder::read(place.file("out/memory.rank0.json"))
                  .find(" of " + level.instruction_set() + ", libm"),
              std::string::npos)
        << isa;
  }
}

TEST(Isa, ThatIsNotHereIsNamed) {
  for (const CpuIsa isa : {CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAvx512Bf16, CpuIsa::kAmx}) {
    const auto levels = cpu_levels();
    const bool built =
        std::any_of(levels.begin(), levels.end(), [&](const CpuLevel& level) { return level.isa == isa; });
    if (built && can_run(isa)) continue;
    const std::string name(name_of(isa));
    const Workplace place;
    const Finished run = place.train(kCpu + Words{"device.isa=" + name});
    EXPECT_EQ(run.status, 2);
    EXPECT_NE(run.err.find("device.isa " + name +
                           (built ? ": this processor has not all of " : ": this build has no kernels for ") +
                           name + "; here: auto, "),
              std::string::npos)
        << run.err;
  }
  const Workplace place;
  const Finished run =
      place.train({"device.isa=" + std::string(name_of(cpu_level().isa)), "device.backend=reference"});
  EXPECT_EQ(run.status, 2);
  EXPECT_NE(run.err.find("device.isa"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace recollect::test::threads_test
