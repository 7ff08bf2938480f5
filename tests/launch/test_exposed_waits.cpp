// The third promise: the report names every microsecond that the compute stream waited. With side streams
// made slow, the time of a step that no op of the compute stream accounts for is what the report calls
// exposed.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "launch/config/read.h"
#include "launch/program/lengths.h"
#include "launch/program/training_program.h"
#include "launch/ranks/world.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::exposed_waits_test {
namespace {

using Clock = std::chrono::steady_clock;

// Delays every op of the side streams, and sums up how long those of the compute stream run.
class SlowSideStreams final : public ExecutorProbe {
 public:
  explicit SlowSideStreams(std::chrono::milliseconds delay) : delay_(delay) {}

  void before_op(const Executor& executor, OpId id) override {
    if (executor.program().graph.op(id).stream != StreamId::kCompute)
      std::this_thread::sleep_for(delay_);
    else
      begun_ = Clock::now();
  }
  void after_op(const Executor& executor, OpId id) override {
    if (executor.program().graph.op(id).stream == StreamId::kCompute) busy_ += Clock::now() - begun_;
  }
  double busy_seconds() const { return std::chrono::duration<double>(busy_).count(); }

 private:
  std::chrono::milliseconds delay_;
  Clock::time_point begun_;  // both are the compute stream's own
  Clock::duration busy_{};
};

const char* const kYaml = R"(
model: {type: gpt2, vocab_size: 37, n_positions: 16, n_embd: 24, n_layer: 6, n_head: 4}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 2, gradient_accumulation_steps: 2, max_steps: 3, seed: 3}
data: {format: random, sequence_length: 16}
activation_checkpointing: {mode: full}
)";

struct Waits {
  double idle = 0;     // of all runs, from the outside
  double exposed = 0;  // what the executor says
};

using Words = std::vector<std::string>;

Waits waits_of_rank(const Config& config, Communicator& world, std::chrono::milliseconds delay) {
  const Mesh mesh(
      world, training_axes(config.parallelism.data_parallel_size, config.parallelism.tensor_parallel_size));
  TrainingProgram training =
      make_training_program(config, mesh, kernels_of(config.device.backend, config.device.isa), batch_shape(config));
  SlowSideStreams probe(delay);
  const std::unique_ptr<Device> device = make_cpu_device();
  ProgramMemory memory(*device, {&training.program});
  Executor executor(std::move(training.program), memory, &probe);
  double seconds = 0;
  const auto timed = [&](auto run) {
    const Clock::time_point start = Clock::now();
    run();
    seconds += std::chrono::duration<double>(Clock::now() - start).count();
  };
  RunState state{.micro_batches = config.training.gradient_accumulation_steps};
  for (; state.step < config.training.max_steps; ++state.step) {
    for (state.micro_batch = 0; state.micro_batch < state.micro_batches; ++state.micro_batch)
      timed([&] { executor.run_micro_batch(state); });
    timed([&] { executor.run_optimizer(state); });
  }
  world.barrier();
  return {.idle = seconds - probe.busy_seconds(), .exposed = executor.waits().total_exposed()};
}

// By rank.
std::vector<Waits> waits_of(const Words& words, std::chrono::milliseconds delay) {
  const Config config = read_config_text("test.yaml", kYaml, words);
  std::vector<Waits> waits(static_cast<std::size_t>(config.parallelism.ranks_per_process));
  std::unique_ptr<MpiEnvironment> mpi;
  run_ranks(config, mpi, [&](Communicator& world) {
    Config mine = config;
    resolve_world(mine, world.size());
    waits[static_cast<std::size_t>(world.rank())] = waits_of_rank(mine, world, delay);
  });
  return waits;
}

class ExposedWaits : public ::testing::TestWithParam<Words> {};

TEST_P(ExposedWaits, AddUpToTheIdleTimeOfTheComputeStream) {
  for (const Waits& waits : waits_of(GetParam(), std::chrono::milliseconds(30))) {
    EXPECT_GT(waits.exposed, 0.5) << "the delays do not show";
    EXPECT_NEAR(waits.exposed, waits.idle, 0.02 * waits.idle);
  }
}

Words words(int tensor, bool partition, bool host, int data = 1) {
  const auto text = [](bool value) { return std::string(value ? "true" : "false"); };
  return {"parallelism.tensor_parallel_size=" + std::to_string(tensor),
          "parallelism.ranks_per_process=" + std::to_string(tensor * data),
          "activation_checkpointing.partition_activations=" + text(partition),
          "activation_checkpointing.cpu_checkpointing=" + text(host)};
}

INSTANTIATE_TEST_SUITE_P(All, ExposedWaits,
                         ::testing::Values(words(1, false, true), words(2, true, false), words(2, true, true),
                                           words(1, false, true, 2)));

}  // namespace
}  // namespace recollect::test::exposed_waits_test
