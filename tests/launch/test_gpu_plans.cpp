// Every build plans for a GPU: with the CUDA backend's own kernels, or, in a build without CUDA, with what they would take. One
// table of bytes holds both kinds of builds.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <numeric>

#include "engine/ops/cuda/cudnn_attention.h"
#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "tests/engine/expect_error.h"
#include "tests/launch/process.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::gpu_plans {
namespace {

const char* const kRun = R"(
device: {backend: cuda}
training: {micro_batch_size: 4, max_steps: 2, seed: 3}
)";
const std::string kGpt2 = std::string(kRun) + R"(
model: {type: gpt2, vocab_size: 512, n_positions: 128, n_embd: 64, n_layer: 3, n_head: 4}
data: {format: random, sequence_length: 128}
)";
const std::string kBert = std::string(kRun) + R"(
task: sequence_classification
model: {type: bert, vocab_size: 500, max_position_embeddings: 96, hidden_size: 48, intermediate_size: 96,
        num_hidden_layers: 3, num_attention_heads: 4, type_vocab_size: 2}
data: {format: random, sequence_length: 96}
)";
const std::string kLlama = std::string(kRun) + R"(
model: {type: llama, vocab_size: 512, hidden_size: 64, intermediate_size: 128, num_hidden_layers: 3,
        num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 4096}
data: {format: random, sequence_length: 128}
)";

Config planned_for_gpu(const std::string& yaml, const Words& words) {
  Config config = read_config_text("test.yaml", yaml, words, kAnyBuild);
  resolve_planned_world(config);
  return config;
}

// Of a rank: the device's arena, the host's, and the workspaces of all ops together, most of which overlap the largest.
struct Bytes {
  uint64_t arena = 0, host = 0, workspaces = 0;
  bool operator==(const Bytes&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Bytes& b) {
  return out << "{" << b.arena << ", " << b.host << ", " << b.workspaces << "}";
}

Bytes bytes_of(const Config& config) {
  const Program program = PlannedRank(config, 0, 0).require_plan(config).program;
  return {program.predicted().arena_bytes(), program.predicted().host_bytes,
          std::accumulate(program.workspaces.begin(), program.workspaces.end(), uint64_t{0})};
}

struct Row {
  Words words;
  Bytes bytes;
};

const std::string kFp32 = "training.precision=fp32", kBf16 = "training.precision=bf16",
                  kFp16 = "training.precision=fp16", kFull = ac("mode=full"),
                  kHost = ac("cpu_checkpointing=true"), kOffload = "optimizer.offload=host",
                  kTensor = "parallelism.tensor_parallel_size=2", kData = "parallelism.data_parallel_size=2";

void expect_rows(const std::string& yaml, const std::vector<Row>& rows) {
  if (!cuda::has_fused_attention()) GTEST_SKIP() << "this build has no cudnn-frontend, and other bytes";
  for (const auto& [words, bytes] : rows)
    EXPECT_EQ(bytes_of(planned_for_gpu(yaml, words)), bytes) << fmt::format("{}", fmt::join(words, " "));
}

TEST(GpuPlans, AreTheSameInEveryBuildForGpt2) {
  expect_rows(
      kGpt2, {{{kFp32}, {43879936, 0, 1242189900}},
              {{kBf16}, {40652288, 0, 1243896140}},
              {{kBf16, kFull, kHost}, {38254080, 131072, 1546088012}},
              {{kFp16, ac("mode=selective")}, {39472704, 0, 1243896140}},
              {{kBf16, kOffload}, {38391296, 2260992, 1243896140}},
              {{kBf16, kOffload, kFull, kData, "parallelism.zero_stage=2"}, {36430272, 1130496, 1546088012}},
              {{kBf16, kTensor, kFull, ac("partition_activations=true")}, {36289536, 0, 1545135044}},
              {{kBf16, kTensor, "parallelism.sequence_parallel=true"}, {37293056, 0, 1242917316}},
              {{kBf16, kData, "parallelism.zero_stage=3", kTensor, kOffload}, {36695872, 589824, 1242943940}},
              {{kBf16, "device.gelu_in_products=true"}, {40652288, 0, 1243851596}},
              {{kBf16, "training.fp8=true"}, {40161536, 0, 1243935836}},
              {{kBf16, "optimizer.name=adafactor"}, {39149824, 0, 1244869100}},
              {{kFp32, "optimizer.name=muon"}, {43290112, 0, 7282038348}},
              {{kBf16, "optimizer.name=adamw8bit", kFull}, {37208064, 0, 1546088012}},
              {{kBf16, "lora.rank=4"}, {36621056, 0, 1378100024}}});
}

TEST(GpuPlans, AreTheSameInEveryBuildForBert) {
  expect_rows(kBert, {{{kFp32}, {37820032, 0, 1409374220}},
                      {{kBf16}, {36592768, 0, 1409373228}},
                      {{kBf16, kFull, kHost}, {35716864, 73728, 1812031020}},
                      {{kFp16, ac("mode=sqrt"), kOffload}, {35131328, 1043712, 1543592492}},
                      {{kBf16, kData, "parallelism.zero_stage=1", kOffload}, {35550784, 523008, 1409373228}},
                      {{kBf16, kTensor, ac("mode=selective"), ac("partition_activations=true")},
                       {35229184, 0, 1409355460}},
                      {{kBf16, "training.fp8=true", kFull}, {35777344, 0, 1812056816}},
                      {{kBf16, "task=token_classification"}, {36556224, 0, 1308713260}},
                      {{kBf16, "task=masked_lm", "data.mask_token=3"}, {36951296, 0, 1342467132}}});
}

TEST(GpuPlans, AreTheSameInEveryBuildForLlama) {
  const std::string long_samples = "data.sequence_length=4096", one = "training.micro_batch_size=1";
  expect_rows(
      kLlama,
      {{{kFp32}, {42462720, 0, 1242097076}},
       {{kBf16}, {39800320, 0, 1244588980}},
       {{kBf16, kFull, kHost}, {37740032, 131072, 1546778548}},
       {{kFp16, ac("mode=recursive"), kOffload}, {36089408, 2113536, 1446048692}},
       {{kBf16, kOffload, "optimizer.offload_update=host"}, {37686784, 2703488, 1244588980}},
       {{kBf16, kData, "parallelism.zero_stage=3"}, {39057984, 0, 1244588980}},
       {{kBf16, kTensor, kFull, ac("partition_activations=true"), kHost}, {35888640, 65536, 1545459628}},
       {{kBf16, "parallelism.tensor_parallel_size=4"}, {35988992, 0, 1544404164}},
       {{kBf16, "training.fp8=true"}, {39506176, 0, 1244594188}},
       {{kBf16, "optimizer.name=adafactor", kTensor}, {36496256, 0, 1243846364}},
       {{kBf16, long_samples, one}, {158547456, 0, 1653353396}},
       {{kBf16, long_samples, one, "device.memory_limit=400MiB"}, {61472256, 0, 1253852084}}});
}

TEST(GpuPlans, AreComparedAndEstimated) {
  const Config config = planned_for_gpu(kLlama, {kBf16, kOffload});
  const std::vector<Variant> variants = compare_variants(config);
  EXPECT_GT(variants.size(), 8u);
  const Estimate e = estimate(config);
  EXPECT_EQ(e.memory.arena_bytes(), bytes_of(config).arena);
  EXPECT_GT(e.memory.host_bytes, 0u);
  EXPECT_EQ(e.device.name, "h200");
}

// What the kernels refuse is refused where they are not, too.
TEST(GpuPlans, AreRefusedForShapesThatHaveNoKernel) {
  expect_error(ExitCode::kConfiguration, {"the cuda backend has no attention for heads of 512"}, [] {
    bytes_of(planned_for_gpu(kGpt2, {"model.n_embd=1024", "model.n_head=2"}));
  });
  expect_error(ExitCode::kConfiguration, {"multiplies FP8 in multiples of 16"}, [] {
    bytes_of(planned_for_gpu(kGpt2, {kBf16, "training.fp8=true", "model.n_inner=24"}));
  });
}

TEST(GpuPlans, ArePrintedByEveryBuildAndRunByOneWithCuda) {
  const Workplace place;
  place.folder().write("gpu.yaml", kGpt2);
  const Words planning[] = {{"estimate", "gpu.yaml", kOffload},
                            {"estimate", "gpu.yaml", "--compare"},
                            {"estimate", "gpu.yaml", "device.memory_limit=60MiB", "--max-sequence-length"},
                            {"explain", "gpu.yaml", kBf16},
                            {"config", "show", "gpu.yaml"}};
  for (const Words& words : planning) {
    const Finished finished = place.recollect(words);
    EXPECT_EQ(finished.status, 0) << fmt::format("{}: ", fmt::join(words, " ")) << finished.err;
    EXPECT_NE(finished.out, "");
  }
  if (cuda::is_built()) return;
  for (const char* command : {"train", "profile"}) {
    const Finished finished = place.recollect({command, "gpu.yaml"});
    EXPECT_EQ(finished.status, 2);
    EXPECT_NE(
        finished.err.find("gpu.yaml:2:19: device.backend cuda: this build has no CUDA backend: `recollect "
                          "estimate` and `explain` predict such a run here"),
        std::string::npos)
        << finished.err;
  }
}

}  // namespace
}  // namespace recollect::test::gpu_plans
