// Logits, loss, every gradient and five steps of the encoders for each task and of the decoders against
// PyTorch and Transformers, from weights and batches that tests/golden/make_family_goldens.py wrote;
// the same numbers from any number of ranks; and a model that is loaded and saved is the same model.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "engine/io/json.h"
#include "engine/io/safetensors_writer.h"
#include "launch/config/read.h"
#include "launch/train/save_model.h"
#include "tests/launch/process.h"
#include "tests/launch/python.h"
#include "tests/launch/training_harness.h"
#include "tests/launch/training_rounding.h"

namespace recollect::test::family_goldens_test {
namespace {

std::string folder_of(const std::string& name) {
  return std::string(RECOLLECT_SOURCE_DIR) + "/tests/golden/families/" + name;
}

const char* const kYaml = R"(
device: {backend: reference}
training: {precision: fp64}
data: {format: jsonl, shuffle: false}
)";

using Words = std::vector<std::string>;

Words words_of(const std::string& name, const Words& more = {}) {
  nlohmann::json described;
  std::ifstream(folder_of(name) + "/case.json") >> described;
  const std::string samples = described["samples"].dump();
  Words words{"task=" + described["task"].get<std::string>(),
              "model.pretrained=" + folder_of(name),
              "data.path=" + folder_of(name) + "/batch.jsonl",
              "data.sequence_length=" + described["sequence"].dump(),
              "training.global_batch_size=" + samples,
              "training.micro_batch_size=" + samples,
              "training.max_steps=1"};
  for (const auto& [key, value] : described["keys"].items()) words.push_back(key + "=" + value.dump());
  for (const std::string& word : more) {
    std::erase_if(words, [key = word.substr(0, word.find('='))](const std::string& w) {
      return w.starts_with(key + "=");
    });
    words.push_back(word);
  }
  return words;
}

Tensors golden(const std::string& name, const std::string& prefix) {
  return read_tensors(folder_of(name) + "/golden.safetensors", prefix);
}

// The loss and the gradients of a first step are the golden's, but for rounding. Tensors that the golden has not add the
// same to all that a softmax compares: their gradient is nothing but rounding.
void expect_golden(const std::string& name, const Trained& trained, const Bounds& bounds) {
  expect_within(golden(name, "loss").at(""), losses_of(trained), bounds.losses, "loss");
  expect_within(golden(name, "grad/"), trained.gradients, bounds.gradients);
  EXPECT_EQ(trained.predicted, trained.measured);
}

class FamilyGoldens : public testing::TestWithParam<std::string> {};

TEST_P(FamilyGoldens, LossAndGradientsInDouble) {
  const Words words = words_of(GetParam());
  expect_golden(GetParam(), train(kYaml, words), rounding_bounds(kYaml, words, DType::kF64));
}

TEST_P(FamilyGoldens, LossAndGradientsInFloatOnTheCpuBackend) {
  const Words words = words_of(GetParam());
  const Bounds bounds = rounding_bounds(kYaml, words, DType::kF32);
  for (const std::string& isa : isas_here()) {
    SCOPED_TRACE(isa);
    expect_golden(GetParam(), train(kYaml, on_cpu(words, isa)), bounds);
  }
}

// Three samples in micro-batches of two: the fourth is padding. An evaluation of question answering is the mean
// over all positions that count; the golden is the mean of two means, of two starts and of three ends.
TEST_P(FamilyGoldens, EvaluationCountsNoPadding) {
  if (GetParam().ends_with("_question")) GTEST_SKIP() << "its evaluation is another mean";
  const std::string file = folder_of(GetParam()) + "/batch.jsonl";
  Words words = words_of(
      GetParam(), {"training.max_steps=0", "training.micro_batch_size=2", "training.global_batch_size=2",
                   "evaluation.every_steps=1", "evaluation.path=" + file});
  std::erase_if(words, [](const std::string& word) { return word.starts_with("data.path="); });
  const Trained evaluated = train(kYaml, words);
  const double loss = golden(GetParam(), "loss").at("").at(0);
  EXPECT_NEAR(evaluated.evaluations.at(0).loss, loss, 1e-10 * loss);
}

TEST_P(FamilyGoldens, FiveStepsOfAdamW) {
  const Words words = words_of(GetParam(), {"training.max_steps=5", "optimizer.name=adamw",
                                            "optimizer.learning_rate=1e-2", "optimizer.weight_decay=0.1"});
  const Trained trained = train(kYaml, words);
  const Bounds bounds = rounding_bounds(kYaml, words, DType::kF64);
  const Tensors expected = golden(GetParam(), "adamw/step5/");
  expect_within(expected, trained.parameters, stored_as_float(bounds.parameters, expected));
  expect_within(golden(GetParam(), "adamw/loss").at(""), losses_of(trained), bounds.losses, "loss");
  expect_within(golden(GetParam(), "adamw/grad_norm").at(""), norms_of(trained), bounds.norms, "norm");
}

TEST_P(FamilyGoldens, AnyLayoutOfRanksGivesTheSameNumbers) {
  const Words steps{"training.max_steps=2", "training.micro_batch_size=1", "data.sequence_length=12",
                    "optimizer.name=sgd", "optimizer.learning_rate=1e-2"};
  const Trained alone = train(kYaml, words_of(GetParam(), steps));
  const Bounds bounds = rounding_bounds(kYaml, words_of(GetParam(), steps), DType::kF64);
  for (const Words& layout : {Words{"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2"},
                              Words{"parallelism.tensor_parallel_size=4", "parallelism.ranks_per_process=4"},
                              Words{"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2",
                                    "training.micro_batch_size=3", "parallelism.sequence_parallel=true"},
                              Words{"parallelism.data_parallel_size=3", "parallelism.ranks_per_process=3"}}) {
    Words words = steps;
    words.insert(words.end(), layout.begin(), layout.end());
    const Trained many = train(kYaml, words_of(GetParam(), words));
    SCOPED_TRACE(layout.back());
    expect_within(losses_of(alone), losses_of(many), bounds.losses, "loss");
    expect_within(norms_of(alone), norms_of(many), bounds.norms, "norm");
    expect_within(alone.gradients, many.gradients, bounds.gradients);
    expect_within(alone.parameters, many.parameters, bounds.parameters);
    EXPECT_EQ(many.predicted, many.measured);
  }
}

// What the loss is made of. Those of a language model never exist as a whole: the head's op multiplies.
class LogitsProbe final : public ExecutorProbe {
 public:
  explicit LogitsProbe(ExecutorProbe* noise) : noise_(noise) {}
  void after_op(const Executor& executor, OpId id) override {
    if (noise_) noise_->after_op(executor, id);
  }
  void before_op(const Executor& executor, OpId id) override {
    const Graph& graph = executor.program().graph;
    const Op& op = graph.op(id);
    const auto input = [&](std::size_t i) { return values_of(executor, op.inputs[i]); };
    if (op.def->name == "cross_entropy_loss" || op.def->name == "elementwise_loss") logits = input(0);
    if (op.def->name != "lm_head_loss") return;
    const std::vector<double> x = input(0), w = input(1);
    const auto width = static_cast<std::size_t>(graph.value(op.inputs[0]).shape[1]),
               vocabulary = static_cast<std::size_t>(op.attributes.integer("vocabulary_size"));
    const bool biased = op.inputs.size() > 4 && op.inputs[4] != kNone;
    const std::vector<double> bias = biased ? input(4) : std::vector<double>(vocabulary);
    logits.clear();
    for (std::size_t row = 0; row < x.size() / width; ++row) {
      logits.insert(logits.end(), bias.begin(), bias.begin() + static_cast<std::ptrdiff_t>(vocabulary));
      double* const sums = logits.data() + row * vocabulary;
      for (std::size_t v = 0; v < vocabulary; ++v)
        for (std::size_t i = 0; i < width; ++i) sums[v] += x[row * width + i] * w[v * width + i];
      const double cap = op.attributes.has("logit_cap") ? op.attributes.real("logit_cap") : 0;
      for (std::size_t v = 0; v < vocabulary && cap > 0; ++v) sums[v] = cap * std::tanh(sums[v] / cap);
    }
  }
  std::vector<double> logits;

 private:
  static std::vector<double> values_of(const Executor& executor, ValueId id) {
    const Tensor tensor = executor.tensor(id);
    if (tensor.dtype == DType::kF64) return {tensor.as<double>(), tensor.as<double>() + tensor.elements()};
    return {tensor.as<float>(), tensor.as<float>() + tensor.elements()};
  }

  ExecutorProbe* const noise_;
};

// Trains a step that changes nothing, saves to `folder` as the program does, and returns the step's logits.
std::vector<double> load_and_save(const std::string& name, const std::string& folder, Words words,
                                  ExecutorProbe* noise = nullptr) {
  for (const char* word : {"optimizer.learning_rate=0", "checkpoint.save_model=true"}) words.push_back(word);
  words.push_back("output_dir=" + folder);
  LogitsProbe probe(noise);
  on_ranks(
      read_config_text("test.yaml", kYaml, words_of(name, words)),
      [](const Config& config, Session& session) {
        ModelSave model(config, session);
        session.step();
        model.save();
      },
      [&](int rank) { return ProgramParts{.edit_program = {}, .probe = rank == 0 ? &probe : nullptr}; });
  return probe.logits;
}

// Names, sizes, types and every bit.
void expect_same_tensors(const std::string& one, const std::string& other) {
  const SafetensorsFile a(one), b(other);
  EXPECT_EQ(a.entries().size(), b.entries().size());
  const Tensors values = read_tensors(one, ""), same = read_tensors(other, "");
  for (const TensorEntry& entry : a.entries()) {
    const TensorEntry* found = b.find(entry.name);
    ASSERT_TRUE(found) << entry.name;
    EXPECT_EQ(found->dtype, entry.dtype) << entry.name;
    ASSERT_EQ(found->shape, entry.shape) << entry.name;
    const std::vector<double>&x = values.at(entry.name), &y = same.at(entry.name);
    EXPECT_EQ(std::memcmp(x.data(), y.data(), x.size() * sizeof(double)), 0) << entry.name;
  }
}

// What both say they say alike; and ours says all that Transformers could not know otherwise.
void expect_same_description(const std::string& theirs, const std::string& ours) {
  const auto golden = nlohmann::json::parse(TemporaryFolder::read(theirs)),
             saved = nlohmann::json::parse(TemporaryFolder::read(ours));
  for (const auto& [key, value] : golden.items())
    if (!value.is_null() && saved.contains(key)) {
      EXPECT_EQ(saved[key], value) << key;
    }
  for (const char* key :
       {"architectures", "model_type", "tie_word_embeddings", "bos_token_id", "eos_token_id", "pad_token_id",
        "id2label", "label2id", "num_key_value_heads", "head_dim", "attention_bias", "mlp_bias"})
    if (golden.contains(key)) {
      EXPECT_EQ(saved.value(key, nlohmann::json("missing")), golden[key]) << key;
    }
}

TEST_P(FamilyGoldens, SavesWhatItHasLoaded) {
  const TemporaryFolder folder;
  const std::string original = folder_of(GetParam()), model = "/model.safetensors", first = folder.file("1");
  const std::vector<double> expected = golden(GetParam(), "logits").at("");
  const Words single{"device.backend=cpu", "device.threads=1", "training.precision=fp32"};
  for (const auto& [precision, dtype] : {std::pair(Words{}, DType::kF64), std::pair(single, DType::kF32)}) {
    const std::string once = folder.file(precision.empty() ? "1" : "3"),
                      twice = folder.file(precision.empty() ? "2" : "4");
    for (const std::string& to : {once, twice}) std::filesystem::create_directory(to);
    load_and_save(GetParam(), once, precision);
    Words again = precision;
    again.push_back("model.pretrained=" + once);
    const std::vector<double> logits = load_and_save(GetParam(), twice, again);
    const Tensors bounds = rounding_bounds(dtype, [&](ExecutorProbe* noise) {
      return Tensors{{"logits", load_and_save(GetParam(), folder.path(), {}, noise)}};
    });
    expect_within(expected, logits, bounds.at("logits"), "logits");
    EXPECT_EQ(TemporaryFolder::read(twice + model), TemporaryFolder::read(once + model));
    EXPECT_EQ(TemporaryFolder::read(twice + "/config.json"), TemporaryFolder::read(once + "/config.json"));
  }
  expect_same_tensors(original + model, first + model);
  expect_same_description(original + "/config.json", first + "/config.json");
  for (const char* ranks : {"2", "4"}) {
    const std::string many = folder.file("of " + std::string(ranks));
    std::filesystem::create_directory(many);
    load_and_save(GetParam(), many,
                  {"parallelism.tensor_parallel_size=" + std::string(ranks),
                   "parallelism.ranks_per_process=" + std::string(ranks)});
    EXPECT_TRUE(TemporaryFolder::read(many + model) == TemporaryFolder::read(first + model)) << ranks;
  }
}

const std::string kFamilies[] = {"bert_masked_lm",
                                 "bert_class",
                                 "bert_regression",
                                 "bert_multi_label",
                                 "bert_choice",
                                 "bert_question",
                                 "bert_token_class",
                                 "llama",
                                 "llama_linear",
                                 "llama_llama3",
                                 "mistral",
                                 "qwen2",
                                 "qwen3",
                                 "qwen3_yarn",
                                 "llama_dynamic",
                                 "phi3",
                                 "gpt_neox",
                                 "gpt_neox_serial",
                                 "mistral_window",
                                 "qwen2_window",
                                 "gemma2",
                                 "gemma2_untied",
                                 "gemma3",
                                 "gemma3_untied",
                                 "roberta_masked_lm",
                                 "roberta_class",
                                 "xlm_roberta_choice",
                                 "distilbert_masked_lm",
                                 "distilbert_regression",
                                 "distilbert_question",
                                 "modernbert_masked_lm",
                                 "modernbert_class",
                                 "modernbert_choice",
                                 "modernbert_token_class"};

INSTANTIATE_TEST_SUITE_P(All, FamilyGoldens, testing::ValuesIn(kFamilies),
                         [](const auto& info) { return info.param; });

// A model of text and images: its text model is trained, by the names and from the object that it has there.
TEST(WholeModels, TheTextModelOfGemma3IsFound) {
  const TemporaryFolder folder;
  const std::string model = "/model.safetensors", inside_of = "language_model.";
  Tensors tensors = {{"vision_tower.post_layernorm.bias", {1}},
                     {"multi_modal_projector.mm_soft_emb_norm.weight", {1}}};
  SafetensorsWriter file(folder.path() + model);
  for (const auto& [name, values] : tensors) file.declare(name, DType::kF64, {1});
  const SafetensorsFile text(folder_of("gemma3") + model);
  for (const TensorEntry& entry : text.entries())
    file.declare(inside_of + entry.name, DType::kF64, entry.shape);
  for (const auto& [name, values] : read_tensors(text.path(), "")) tensors[inside_of + name] = values;
  for (const auto& [name, values] : tensors) file.write_converted(name, values.data(), values.size());
  file.finish();
  const auto config = nlohmann::json::parse(TemporaryFolder::read(folder_of("gemma3") + "/config.json"));
  folder.write("config.json", nlohmann::json({{"model_type", "gemma3"}, {"text_config", config}}).dump());
  const Trained alone = train(kYaml, words_of("gemma3")),
                inside = train(kYaml, words_of("gemma3", {"model.pretrained=" + folder.path()}));
  EXPECT_EQ(alone.steps[0].loss, inside.steps[0].loss);
  EXPECT_TRUE(alone.gradients == inside.gradients);
}

// As torch.nn.Embedding's padding_idx: the row learns nothing as an embedding, and all else as without it.
TEST(UnlearntToken, GetsNoGradientAsAnEmbedding) {
  constexpr int64_t kToken = 36, kWidth = 20;  // it stands in all of the golden's lines
  const Trained all = train(kYaml, words_of("llama")),
                but_one = train(kYaml, words_of("llama", {fmt::format("model.pad_token_id={}", kToken)}));
  EXPECT_EQ(all.steps[0].loss, but_one.steps[0].loss);
  Tensors expected = all.gradients;
  const auto table = std::find_if(expected.begin(), expected.end(),
                                  [](const auto& t) { return t.first.ends_with("embed_tokens.weight"); });
  ASSERT_NE(table, expected.end());
  double learnt = 0;
  for (int64_t i = 0; i < kWidth; ++i)
    learnt += std::abs(std::exchange(table->second[kToken * kWidth + i], 0));
  EXPECT_GT(learnt, 0);
  EXPECT_TRUE(but_one.gradients == expected);
}

// Each as the class of its task, nothing drawn at random, with the original's parameters, and its logits but for the order
// in which PyTorch sums.
TEST(SavedFamilies, TransformersLoadsThem) {
  const std::string python = python_with("torch, transformers, safetensors");
  if (python.empty()) GTEST_SKIP() << "no Python with torch, transformers and safetensors here";
  const TemporaryFolder folder;
  Words command{python, "-c", R"(
import sys
sys.path.insert(0, sys.argv[1])
import check_saved
for saved, original in zip(sys.argv[2::2], sys.argv[3::2]):
    sys.argv = ["", saved, "--same-as", original, "--batch", original + "/batch.jsonl", "--tolerance", "1e-14"]
    if check_saved.main() != 0: sys.exit(1)
)",
                RECOLLECT_SOURCE_DIR "/tests/golden"};
  for (const std::string& family : kFamilies) {
    const std::string saved = folder.file(family);
    std::filesystem::create_directory(saved);
    load_and_save(family, saved, {});
    command.push_back(saved);
    command.push_back(folder_of(family));
  }
  const Finished checked = Process(command, folder.path()).wait(Workplace::kBound);
  EXPECT_EQ(checked.status, 0) << checked.err;
  EXPECT_EQ(times_in(checked.out, "\"largest_difference\": 0.0"), static_cast<int>(std::size(kFamilies)))
      << checked.out;
}

}  // namespace
}  // namespace recollect::test::family_goldens_test
