// Generation against Transformers and against the training forward: the same tokens, the same logits, in the
// memory that was predicted, however a prompt is cut and however many ranks divide the model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <mutex>

#include "engine/io/json.h"
#include "engine/io/safetensors.h"
#include "launch/config/read.h"
#include "launch/generate/generator.h"
#include "launch/generate/options.h"
#include "launch/generate/sampler.h"
#include "launch/program/model_graph.h"
#include "launch/program/task.h"
#include "launch/ranks/world.h"
#include "parallel/weights.h"

namespace recollect::test::generator_test {
namespace {

using Words = std::vector<std::string>;
using Ids = std::vector<int32_t>;
using Doubles = std::vector<double>;

const Words kTruth = {"device.backend=reference", "training.precision=fp64"};
const Words kFast = {"device.backend=cpu", "device.threads=1", "training.precision=fp32"};

struct Continued {
  Ids prompt, ids;
};

std::vector<Continued> golden_of(const std::string& model) {
  nlohmann::json json;
  std::ifstream(RECOLLECT_SOURCE_DIR "/tests/golden/generation.json") >> json;
  std::vector<Continued> all;
  for (const nlohmann::json& one : json.at("continued").at(model)) all.push_back({one["prompt"], one["ids"]});
  return all;
}

Config config_of(const std::string& model, Words words) {
  words.push_back("model.pretrained=" RECOLLECT_SOURCE_DIR "/tests/golden/" + model);
  return read_config_text("test.yaml", "data: {format: random}\n", words);
}

// `body` on so many ranks, which are threads.
void on_generating_ranks(Config config, int ranks,
                         const std::function<void(const Config&, Communicator&)>& body) {
  config.parallelism.ranks_per_process = config.parallelism.tensor_parallel_size = ranks;
  config.parallelism.data_parallel_size = 1;
  std::unique_ptr<MpiEnvironment> mpi;
  run_ranks(config, mpi, [&](Communicator& world) {
    Config mine = config;
    try {
      fit_to_ranks(mine, world.size());
      body(mine, world);
      world.barrier();
    } catch (const std::exception& error) {
      world.abort(error.what());
      throw;
    }
  });
}

Ids greedy(Generator& generator, const Ids& prompt, std::size_t count) {
  Sampler sampler({}, static_cast<int64_t>(generator.logits().size()));
  Ids ids, sequence = prompt;
  generator.clear();
  generator.read(prompt);
  while (true) {
    ids.push_back(sampler.next(generator.logits(), 0, generator.cached()));
    if (ids.size() == count) return ids;
    sequence.push_back(ids.back());
    generator.read_latest(sequence, 1);
  }
}

// A number of tokens' keys and values in every layer, as an arena gives them out.
uint64_t bytes_of_cache(const Config& config, int64_t capacity, int ranks, std::size_t element) {
  const ModelFacts facts = config.model.facts();
  const ModelValues& m = config.model.values;
  const bool gpt2 = config.model.type == "gpt2", neox = config.model.type == "gpt_neox";
  const int64_t heads = m.integer(gpt2   ? "n_head"
                                  : neox ? "num_attention_heads"
                                         : "num_key_value_heads"),
                size = gpt2   ? m.integer("n_embd") / heads
                       : neox ? m.integer("hidden_size") / heads
                              : m.integer("head_dim");
  const auto one = static_cast<uint64_t>(std::max<int64_t>(1, heads / ranks) * capacity * size) * element;
  return 2 * static_cast<uint64_t>(facts.layers.value) * aligned(one);
}

void expect_as_predicted(const Generator& generator, const Config& config, int64_t capacity, int ranks,
                         std::size_t element) {
  const MemoryLedger& predicted = generator.predicted();
  EXPECT_EQ(predicted, generator.measured());
  EXPECT_EQ(predicted.at_peak[0][static_cast<std::size_t>(Category::kCache)],
            bytes_of_cache(config, capacity, ranks, element));
}

class GeneratorGoldens : public testing::TestWithParam<std::string> {};

TEST_P(GeneratorGoldens, GreedyTokensAreTransformers) {
  for (const bool truth : {true, false})
    for (const int64_t piece : {3, 64})
      on_generating_ranks(
          config_of(GetParam(), truth ? kTruth : kFast), 1, [&](const Config& config, Communicator& world) {
            constexpr int64_t kLongest = 16;
            Generator generator(config, world, {.capacity = kLongest, .piece = piece});
            for (const auto& [prompt, ids] : golden_of(GetParam()))
              EXPECT_EQ(greedy(generator, prompt, ids.size()), ids) << truth << ", pieces of " << piece;
            expect_as_predicted(generator, config, kLongest, 1, truth ? 8 : 4);
          });
}

TEST_P(GeneratorGoldens, EveryNumberOfTensorRanksContinuesAlike) {
  for (const int ranks : {2, 4}) {
    std::mutex mutex;
    std::vector<Doubles> of_ranks;
    on_generating_ranks(config_of(GetParam(), kTruth), ranks, [&](const Config& config, Communicator& world) {
      constexpr int64_t kLongest = 16;
      Generator generator(config, world, {.capacity = kLongest, .piece = 4});
      for (const auto& [prompt, ids] : golden_of(GetParam()))
        EXPECT_EQ(greedy(generator, prompt, ids.size()), ids) << ranks << " ranks";
      expect_as_predicted(generator, config, kLongest, ranks, 8);
      const std::lock_guard lock(mutex);
      of_ranks.emplace_back(generator.logits().begin(), generator.logits().end());
    });
    ASSERT_EQ(of_ranks.size(), static_cast<std::size_t>(ranks));
    for (const Doubles& logits : of_ranks)
      EXPECT_EQ(logits, of_ranks.front()) << "ranks may draw other tokens";
  }
}

// On the reference, which adds up the products of a row in one order whatever the rows beside it.
TEST_P(GeneratorGoldens, HowAPromptIsCutChangesNoBit) {
  const Ids prompt = golden_of(GetParam()).back().prompt;
  std::vector<Doubles> seen;
  for (const int64_t piece : {1, 2, 3, 5, 7, 64})
    on_generating_ranks(config_of(GetParam(), kTruth), 1, [&](const Config& config, Communicator& world) {
      Generator generator(config, world, {.capacity = 12, .piece = piece});
      greedy(generator, prompt, 4);
      seen.emplace_back(generator.logits().begin(), generator.logits().end());
    });
  for (const Doubles& logits : seen) EXPECT_EQ(logits, seen.front());
}

// The head's operands in a program that trains: its logits never exist there.
class HeadProbe final : public ExecutorProbe {
 public:
  void before_op(const Executor& executor, OpId id) override {
    const Graph& graph = executor.program().graph;
    const Op& op = graph.op(id);
    if (op.def->name != "lm_head_loss") return;
    const Tensor x = executor.tensor(op.inputs[0]), w = executor.tensor(op.inputs[1]);
    const int64_t width = x.shape[1], vocabulary = op.attributes.integer("vocabulary_size");
    for (int64_t row = 0; row < x.shape[0]; ++row) {
      Doubles& sums = logits.emplace_back(static_cast<std::size_t>(vocabulary));
      for (int64_t v = 0; v < vocabulary; ++v)
        for (int64_t i = 0; i < width; ++i)
          sums[static_cast<std::size_t>(v)] +=
              x.as<double>()[row * width + i] * w.as<double>()[v * width + i];
      const double cap = op.attributes.has("logit_cap") ? op.attributes.real("logit_cap") : 0;
      for (double& sum : sums) sum = cap > 0 ? cap * std::tanh(sum / cap) : sum;
    }
  }
  std::vector<Doubles> logits;  // by token
};

std::vector<Doubles> logits_of_training(const Config& config, Communicator& world, const Ids& ids) {
  const Backend backend(config, world);
  const Mesh mesh(world, mesh_axes(config), backend.world());
  ModelGraph built =
      build_model(config, mesh, {.samples = 1, .sequence_length = static_cast<int64_t>(ids.size())});
  for (Parameter& p : built.model.parameters) p.master = p.value;
  KernelTable kernels;
  backend.kernels()(kernels, nullptr);
  Program program = compile(std::move(built.graph), kernels);
  ProgramMemory memory(backend.device(), {&program});
  HeadProbe probe;
  Executor executor(std::move(program), memory, &probe);
  Weights(built.model, executor.program().graph, memory, mesh, false)
      .load(SafetensorsSet(config.model.pretrained), 1);
  const double scale = 1;
  executor.write(built.model.input("ids"), ids.data());
  executor.write(built.model.input("targets"), ids.data());
  executor.write(built.model.scale, &scale);
  executor.run_forward({.token_stride = 64, .training = false});
  return probe.logits;
}

TEST_P(GeneratorGoldens, CachedLogitsAreThoseOfTheTrainingForward) {
  const Continued golden = golden_of(GetParam()).back();
  const Ids& prompt = golden.prompt;
  Ids ids = prompt;
  ids.insert(ids.end(), golden.ids.begin(), golden.ids.end());
  on_generating_ranks(config_of(GetParam(), kTruth), 1, [&](const Config& config, Communicator& world) {
    const std::vector<Doubles> want = logits_of_training(config, world, ids);
    ASSERT_EQ(want.size(), ids.size());
    Generator generator(config, world, {.capacity = static_cast<int64_t>(ids.size()), .piece = 3});
    // If rotary frequencies depend on the length, keys in the cache were rotated with other frequencies.
    const bool by_length = GetParam().ends_with("dynamic") || GetParam().ends_with("phi3");
    const std::size_t first = by_length ? ids.size() : prompt.size();
    for (std::size_t read = 0, count = first; read < ids.size(); read += count, count = 1) {
      generator.read(std::span(ids).subspan(read, count));
      const Doubles& expected = want[read + count - 1];
      const auto got = generator.logits();
      ASSERT_EQ(got.size(), expected.size());
      double largest = 0;
      for (const double x : expected) largest = std::max(largest, std::abs(x));
      for (std::size_t v = 0; v < expected.size(); ++v)
        EXPECT_NEAR(got[v], expected[v], 1e-12 * largest) << "token " << read + count - 1;
    }
  });
}

// Half of the bytes, and logits that are rounded to no less than single precision.
TEST_P(GeneratorGoldens, Bfloat16IsNearWithHalfTheCache) {
  const Ids prompt = golden_of(GetParam()).back().prompt;
  std::vector<Doubles> both;
  for (const char* precision : {"fp32", "bf16"})
    on_generating_ranks(config_of(GetParam(), {"device.backend=cpu", "device.threads=1",
                                               std::string("training.precision=") + precision}),
                        1, [&](const Config& config, Communicator& world) {
                          Generator generator(config, world, {.capacity = 16});
                          generator.read(prompt);
                          expect_as_predicted(generator, config, 16, 1, precision[0] == 'f' ? 4 : 2);
                          both.emplace_back(generator.logits().begin(), generator.logits().end());
                        });
  double squares = 0, differences = 0;
  for (std::size_t i = 0; i < both[0].size(); ++i) {
    squares += both[0][i] * both[0][i];
    differences += (both[0][i] - both[1][i]) * (both[0][i] - both[1][i]);
  }
  EXPECT_LE(std::sqrt(differences / squares), 0.03);
  EXPECT_GT(differences, 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, GeneratorGoldens,
    testing::Values("plain", "families/llama", "families/llama_linear", "families/llama_llama3",
                    "families/mistral", "families/qwen2", "families/qwen3", "families/qwen3_yarn",
                    "families/llama_dynamic", "families/phi3", "families/gpt_neox",
                    "families/gpt_neox_serial", "families/mistral_window", "families/qwen2_window",
                    "families/gemma2", "families/gemma2_untied", "families/gemma3", "families/gemma3_untied"),
    [](const auto& info) {
      return info.param.substr(info.param.find('/') == std::string::npos ? 0 : info.param.find('/') + 1);
    });

}  // namespace
}  // namespace recollect::test::generator_test
