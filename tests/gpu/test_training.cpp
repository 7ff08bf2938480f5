// Training on a GPU: PyTorch's numbers, the same bits whatever is checkpointed, and the memory that was
// predicted. Several tensor ranks are threads that share the device. Run by check.sh, where there is a GPU.
#include <gtest/gtest.h>

#include <cstdlib>

#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "launch/train/session.h"
#include "tests/gpu/device_memory.h"
#include "tests/launch/modes.h"
#include "tests/launch/training_harness.h"

namespace recollect::test {
namespace {

using Words = std::vector<std::string>;

// Odd sizes: 5 layers, 4 heads of 8, vocabulary 37, sequences of 24.
const char* const kOddYaml = R"(
model: {type: gpt2, vocab_size: 37, n_positions: 25, n_embd: 32, n_layer: 5, n_head: 4, n_inner: 72,
        initializer_range: 0.2, resid_pdrop: 0.1, embd_pdrop: 0.1, attn_pdrop: 0.1}
device: {backend: cuda}
training: {micro_batch_size: 2, gradient_accumulation_steps: 2, max_steps: 10, seed: 3}
optimizer: {name: adamw, learning_rate: 1e-2, weight_decay: 0.1}
data: {format: random, sequence_length: 24}
)";

std::string ac(const std::string& key) { return "activation_checkpointing." + key; }
std::string truth(bool b) { return b ? "true" : "false"; }

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words layout(int tensor, const std::string& precision, bool sequence_parallel = false) {
  return {"parallelism.tensor_parallel_size=" + std::to_string(tensor),
          "parallelism.ranks_per_process=" + std::to_string(tensor),
          "parallelism.sequence_parallel=" + truth(sequence_parallel), "training.precision=" + precision};
}

struct Training {
  int tensor;
  std::string precision;
  bool sequence_parallel = false;
};

std::string name_of_training(const testing::TestParamInfo<Training>& info) {
  return "Tensor" + std::to_string(info.param.tensor) + info.param.precision +
         (info.param.sequence_parallel ? "Sequence" : "");
}

class ExactOnGpu : public testing::TestWithParam<Training> {
 protected:
  void SetUp() override { RECOLLECT_NEEDS_DEVICE(); }

  Words words() const {
    return layout(GetParam().tensor, GetParam().precision, GetParam().sequence_parallel);
  }
};

TEST_P(ExactOnGpu, EveryModeAndSwitchGivesTheBitsOfNone) {
  const Trained none = train(kOddYaml, words());
  EXPECT_EQ(none.predicted, none.measured);
  for (const std::string_view mode : kModes)
    for (int switches = 0; switches < 8; ++switches) {
      const bool partition = switches & 1, host = switches & 2, pool = switches & 4;
      if (partition && (GetParam().tensor == 1 || GetParam().sequence_parallel)) continue;
      if (mode == "none" && switches == 0) continue;
      expect_same_bits(none,
                       train(kOddYaml, with(with(words(), mode_words(mode)),
                                            {ac("partition_activations=") + truth(partition),
                                             ac("cpu_checkpointing=") + truth(host),
                                             ac("contiguous_checkpointing=") + truth(!pool)})),
                       std::string(mode) + (partition ? "+partition" : "") + (host ? "+host" : "") +
                           (pool ? "+pool" : ""));
    }
}

TEST_P(ExactOnGpu, TheDiskGivesTheBitsOfNone) {
  const TemporaryFolder folder;
  const Trained none = train(kOddYaml, words());
  for (const bool host : {false, true})
    expect_same_bits(none,
                     train(kOddYaml, with(words(), {ac("mode=full"), ac("cpu_checkpointing=") + truth(host),
                                                    ac("disk_checkpointing.path=") + folder.file("")})),
                     host ? "full+host+disk" : "full+disk");
}

TEST_P(ExactOnGpu, VerifyFindsNoDifference) {
  expect_same_bits(
      train(kOddYaml, words()),
      train(kOddYaml, with(words(), {ac("mode=full"), ac("cpu_checkpointing=true"), ac("verify=true")})),
      "verify");
}

INSTANTIATE_TEST_SUITE_P(All, ExactOnGpu,
                         testing::Values(Training{1, "fp32"}, Training{1, "bf16"}, Training{1, "fp16"},
                                         Training{2, "fp32"}, Training{2, "bf16"}, Training{2, "bf16", true},
                                         Training{4, "bf16"}),
                         name_of_training);

// Of one rank: threads that share a device have no graphs.
TEST(GraphsOnGpu, GiveTheBitsOfLaunches) {
  RECOLLECT_NEEDS_DEVICE();
  for (const char* precision : {"fp32", "bf16", "fp16"}) {
    const Words full = with(layout(1, precision), {ac("mode=full"), ac("cpu_checkpointing=true")});
    expect_same_bits(train(kOddYaml, with(full, {"device.cuda_graph=off"})), train(kOddYaml, full),
                     precision);
  }
}

// The CPU's kernels in double are the truth that both are near to.
TEST(NearTheReference, InEveryPrecision) {
  RECOLLECT_NEEDS_DEVICE();
  const Trained truth =
      train(kOddYaml, {"device.backend=reference", "training.precision=fp64", "training.max_steps=1"});
  for (const auto& [precision, tolerance] :
       {std::pair{"fp32", 1e-4}, std::pair{"bf16", 0.1}, std::pair{"fp16", 0.02}}) {
    const Words words{std::string("training.precision=") + precision, "training.max_steps=1",
                      "model.attn_pdrop=0"};
    const Trained exact = train(kOddYaml, {"device.backend=reference", "training.precision=fp64",
                                           "training.max_steps=1", "model.attn_pdrop=0"});
    const Trained gpu = train(kOddYaml, words);
    EXPECT_NEAR(gpu.steps[0].loss, exact.steps[0].loss, tolerance * exact.steps[0].loss) << precision;
    EXPECT_LE(largest_difference(exact.gradients, gpu.gradients), tolerance) << precision;
  }
  const Trained fp32 = train(kOddYaml, {"training.max_steps=1"});  // our own attention has our own dropout
  EXPECT_LE(largest_difference(truth.gradients, fp32.gradients), 1e-4);
}

std::string golden(const std::string& name) {
  const char* folder = std::getenv("RECOLLECT_GOLDENS");
  return std::string(folder ? folder : RECOLLECT_SOURCE_DIR "/tests/golden") + "/" + name;
}

TEST(GoldensOnGpu, LossAndGradients) {
  RECOLLECT_NEEDS_DEVICE();
  for (const auto& [name, samples, length] :
       {std::tuple{"plain", 2, 12}, std::tuple{"odd", 3, 7}, std::tuple{"deep", 4, 10}})
    for (const auto& [precision, tolerance] : {std::pair{"fp32", 1e-5}, std::pair{"bf16", 0.1}}) {
      const std::string file = golden(std::string(name) + "/golden.safetensors");
      const Trained trained =
          train("model: {type: gpt2}\ndevice: {backend: cuda}\n",
                {"model.pretrained=" + golden(name), "model.resid_pdrop=0", "model.embd_pdrop=0",
                 "model.attn_pdrop=0", "data.format=jsonl",
                 "data.path=" + golden(std::string(name) + "/batch.jsonl"), "data.shuffle=false",
                 "data.sequence_length=" + std::to_string(length), "training.max_steps=1",
                 "training.micro_batch_size=" + std::to_string(samples),
                 "training.global_batch_size=" + std::to_string(samples),
                 std::string("training.precision=") + precision});
      const double loss = read_tensors(file, "loss").at("").at(0);
      EXPECT_NEAR(trained.steps[0].loss, loss, tolerance * loss) << name << " " << precision;
      EXPECT_LE(largest_difference(read_tensors(file, "grad/"), trained.gradients), tolerance)
          << name << " " << precision;
      EXPECT_EQ(trained.predicted, trained.measured);
    }
}

// Needs no device: what is planned for one. The disk's threads cannot look into its memory.
TEST(DiskForGpus, IsReachedThroughTheHost) {
  Config config =
      read_config_text("test.yaml", kOddYaml,
                       {ac("mode=full"), ac("disk_checkpointing.path=/tmp"), "training.precision=bf16"});
  resolve_world(config, 1);
  const PlannedTraining planned = plan_training(config, 0, 0);
  const Graph& graph = planned.training.program.graph;
  int written = 0, read = 0;
  for (const Op& op : graph.ops()) {
    if (op.def->name == "write_to_disk") {
      ++written;
      EXPECT_EQ(graph.value(op.inputs[0]).space, MemorySpace::kHost) << op.name;
    }
    if (op.def->name == "read_from_disk") {
      ++read;
      EXPECT_EQ(graph.value(op.outputs[0]).space, MemorySpace::kHost) << op.name;
    }
  }
  EXPECT_GT(written, 0);
  EXPECT_EQ(read, written);
}

// What the driver says of the arena: reserved in blocks of 2 MiB, and nothing beside it.
TEST(MemoryOnGpu, TheArenaIsWhatTheDriverLoses) {
  RECOLLECT_NEEDS_DEVICE();
  const std::unique_ptr<Device> device = cuda::make_device({});
  const uint64_t before = device->memory()->used();
  const std::size_t bytes = (std::size_t{1} << 30) + 12345 * 64;
  const Arena arena = device->reserve(MemorySpace::kDevice, bytes);
  const uint64_t taken = device->memory()->used() - before;
  EXPECT_GE(taken, bytes);
  EXPECT_LE(taken, bytes + (4u << 20));
}

// Of a run of some size: libraries beside the arena may take 2 % of it, or 64 MiB. What the driver and the libraries take
// once for a process is not counted: kernels when they are first loaded, and whatever stays behind of the algorithms of
// these products, each of which is tried. So the same session is prepared and runs once before anything is read.
TEST(MemoryOnGpu, ARunTakesWhatItsEstimateSays) {
  RECOLLECT_NEEDS_DEVICE();
  Config config =
      read_config_text("test.yaml", kOddYaml,
                       {"model.n_embd=1024", "model.n_inner=4096", "model.n_head=16", "model.n_layer=8",
                        "model.n_positions=1024", "data.sequence_length=1024", "training.micro_batch_size=16",
                        "training.precision=bf16", "training.max_steps=3"});
  resolve_world(config, 1);
  const uint64_t predicted = estimate(config, Ranks::kFirst).memory.arena_bytes();
  const std::unique_ptr<Communicator> world = make_self_communicator();
  const std::unique_ptr<Device> watcher = cuda::make_device({});
  const auto used_after_three_steps = [&] {
    Session session(config, *world);
    for (int step = 0; step < 3; ++step) session.step();
    EXPECT_EQ(session.executor().measured().arena_bytes(), predicted);
    return watcher->memory()->used();
  };
  used_after_three_steps();
  const uint64_t before = watcher->memory()->used();
  const auto taken = static_cast<double>(used_after_three_steps() - before);
  EXPECT_GE(taken, static_cast<double>(predicted));
  EXPECT_LE(taken, static_cast<double>(predicted) +
                       std::max(0.02 * static_cast<double>(predicted), 64.0 * (1 << 20)));
}

TEST(MemoryOnGpu, WhatCannotFitIsRefusedBeforeItIsReserved) {
  RECOLLECT_NEEDS_DEVICE();
  try {
    train(kOddYaml, {"training.micro_batch_size=1048576", "training.gradient_accumulation_steps=1"});
    FAIL() << "no Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDeviceMemory) << error.what();
  }
}

}  // namespace
}  // namespace recollect::test
