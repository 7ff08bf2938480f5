// Low-rank adapters: loss, gradients and five steps against PEFT, from files that tests/golden/make_adapter_goldens.py
// wrote; the same numbers from any layout of ranks and the same bits in every mode; what is frozen takes nothing beside
// itself; and files go both ways.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "engine/io/json.h"
#include "launch/config/lora_keys.h"
#include "launch/program/estimate.h"
#include "launch/train/save_model.h"
#include "tests/launch/config_test_support.h"
#include "tests/launch/modes.h"
#include "tests/launch/process.h"
#include "tests/launch/python.h"
#include "tests/launch/training_harness.h"
#include "tests/launch/training_rounding.h"

namespace recollect::test::adapters_test {
namespace {

using Words = std::vector<std::string>;

Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

std::string golden_folder(const std::string& name) {
  return std::string(RECOLLECT_SOURCE_DIR) + "/tests/golden/" + name;
}
std::string adapters_of(const std::string& name) { return golden_folder("adapters/" + name); }

nlohmann::json case_of(const std::string& name) {
  nlohmann::json described;
  std::ifstream(adapters_of(name) + "/case.json") >> described;
  return described;
}

std::string base_of(const std::string& name) {
  return golden_folder(case_of(name)["base"].get<std::string>());
}

const char* const kYaml = R"(
device: {backend: reference}
training: {precision: fp64}
data: {format: jsonl, shuffle: false}
)";

// Later words win.
Words words_of(const std::string& name, const Words& more = {}) {
  const nlohmann::json described = case_of(name);
  const std::string samples = described["samples"].dump();
  return Words{"task=" + described["task"].get<std::string>(),
               "model.pretrained=" + base_of(name),
               "lora.path=" + adapters_of(name),
               "data.path=" + base_of(name) + "/batch.jsonl",
               "data.sequence_length=" + described["sequence"].dump(),
               "training.global_batch_size=" + samples,
               "training.micro_batch_size=" + samples,
               "training.max_steps=1"} +
         more;
}

Tensors golden(const std::string& name, const std::string& prefix) {
  return read_tensors(adapters_of(name) + "/golden.safetensors", prefix);
}

class AdapterGoldens : public testing::TestWithParam<const char*> {};

void expect_golden(const std::string& name, const Trained& trained, const Bounds& bounds) {
  expect_within(golden(name, "loss").at(""), losses_of(trained), bounds.losses, "loss");
  expect_within(golden(name, "grad/"), trained.gradients, bounds.gradients);
  EXPECT_EQ(trained.predicted, trained.measured);
}

TEST_P(AdapterGoldens, LossAndGradientsInDouble) {
  const Words words = words_of(GetParam());
  expect_golden(GetParam(), train(kYaml, words), rounding_bounds(kYaml, words, DType::kF64));
}

TEST_P(AdapterGoldens, LossAndGradientsInFloatOnTheCpuBackend) {
  const Words words = words_of(GetParam());
  const Bounds bounds = rounding_bounds(kYaml, words, DType::kF32);
  for (const std::string& isa : isas_here()) {
    SCOPED_TRACE(isa);
    expect_golden(GetParam(), train(kYaml, on_cpu(words, isa)), bounds);
  }
}

TEST_P(AdapterGoldens, FiveStepsOfAdamW) {
  const Words words = words_of(GetParam(), {"training.max_steps=5", "optimizer.name=adamw",
                                            "optimizer.learning_rate=1e-2", "optimizer.weight_decay=0.1"});
  const Trained trained = train(kYaml, words);
  const Bounds bounds = rounding_bounds(kYaml, words, DType::kF64);
  expect_within(golden(GetParam(), "adamw/step5/"), trained.parameters, bounds.parameters);
  expect_within(golden(GetParam(), "adamw/loss").at(""), losses_of(trained), bounds.losses, "loss");
  expect_within(golden(GetParam(), "adamw/grad_norm").at(""), norms_of(trained), bounds.norms, "norm");
}

Words ranks(int tensor, int data, const Words& more = {}) {
  return Words{fmt::format("parallelism.tensor_parallel_size={}", tensor),
               fmt::format("parallelism.data_parallel_size={}", data),
               fmt::format("parallelism.ranks_per_process={}", tensor * data)} +
         more;
}

// With dropout, whose masks no layout changes. Of four tensor ranks two have the same key/value head of Llama's. Steps are short:
// a long one multiplies the last bits of the first gradient in the second (a hundred times, where the norm grows fourfold).
TEST_P(AdapterGoldens, AnyLayoutOfRanksGivesTheSameNumbers) {
  const Words steps = {"training.max_steps=2",         "training.micro_batch_size=1",
                       "training.global_batch_size=2", "data.sequence_length=12",
                       "optimizer.name=sgd",           "optimizer.learning_rate=1e-3",
                       "optimizer.max_grad_norm=0",    "lora.dropout=0.3"};
  const Trained alone = train(kYaml, words_of(GetParam(), steps));
  const Bounds bounds = rounding_bounds(kYaml, words_of(GetParam(), steps), DType::kF64);
  for (const Words& layout :
       {ranks(2, 1), ranks(4, 1), ranks(2, 1, {"parallelism.sequence_parallel=true"}),
        ranks(4, 1, {"parallelism.sequence_parallel=true"}), ranks(1, 2), ranks(2, 2),
        ranks(1, 2, {"parallelism.zero_stage=1"}), ranks(1, 2, {"parallelism.zero_stage=2"}),
        ranks(2, 2, {"parallelism.zero_stage=3"})}) {
    const Trained many = train(kYaml, words_of(GetParam(), steps + layout));
    SCOPED_TRACE(fmt::format("{} {}", layout.front(), layout.back()));
    expect_within(losses_of(alone), losses_of(many), bounds.losses, "loss");
    expect_within(norms_of(alone), norms_of(many), bounds.norms, "norm");
    expect_within(alone.gradients, many.gradients, bounds.gradients);
    expect_within(alone.parameters, many.parameters, bounds.parameters);
    EXPECT_EQ(many.predicted, many.measured);
  }
}

// Trains a step that changes nothing, and saves to `folder` as the program does. Returns the step's loss.
double load_and_save(const std::string& folder, const Words& words) {
  double loss = 0;
  std::filesystem::create_directory(folder);
  on_ranks(read_config_text("test.yaml", kYaml,
                            words + Words{"optimizer.learning_rate=0", "checkpoint.save_model=true",
                                          "output_dir=" + folder}),
           [&](const Config& config, Session& session) {
             ModelSave model(config, session);
             const StepResult step = session.step();
             model.save();
             if (session.mesh().world().rank() != 0) return;
             loss = step.loss;
             model.merge();
           });
  return loss;
}

TEST_P(AdapterGoldens, SavesWhatItHasLoaded) {
  const TemporaryFolder folder;
  const std::string file = "/adapter_model.safetensors", theirs = adapters_of(GetParam()),
                    ours = folder.file("1");
  const double loss = load_and_save(ours, words_of(GetParam()));
  EXPECT_EQ(read_tensors(ours + file, ""), read_tensors(theirs + file, ""));
  EXPECT_FALSE(std::filesystem::exists(ours + "/model.safetensors"));
  const auto golden = nlohmann::json::parse(TemporaryFolder::read(theirs + "/adapter_config.json")),
             saved = nlohmann::json::parse(TemporaryFolder::read(ours + "/adapter_config.json"));
  for (const char* key :
       {"peft_type", "task_type", "r", "lora_alpha", "target_modules", "use_rslora", "bias", "fan_in_fan_out",
        "inference_mode", "exclude_modules", "layers_to_transform", "rank_pattern", "alpha_pattern"})
    EXPECT_EQ(saved.at(key), golden.at(key)) << key;
  EXPECT_EQ(load_and_save(folder.file("2"), words_of(GetParam(), {"lora.path=" + ours})), loss);
  load_and_save(folder.file("of 4"), words_of(GetParam(), ranks(4, 1)));
  EXPECT_TRUE(TemporaryFolder::read(folder.file("of 4") + file) == TemporaryFolder::read(ours + file));
}

// Tensors that are f32 in the model's files are so when merged.
TEST_P(AdapterGoldens, AreMergedIntoAModelOfItsOwn) {
  const TemporaryFolder folder;
  const double loss = load_and_save(folder.file("1"), words_of(GetParam(), {"lora.merge=true"}));
  Words alone = words_of(GetParam(), {"model.pretrained=" + folder.file("1") + "/merged"});
  std::erase_if(alone, [](const std::string& word) { return word.starts_with("lora."); });
  const Trained merged = train(kYaml, alone);
  EXPECT_NEAR(merged.steps[0].loss, loss, 1e-6 * loss);
  EXPECT_EQ(merged.gradients.size(), read_tensors(base_of(GetParam()) + "/model.safetensors", "").size());
}

INSTANTIATE_TEST_SUITE_P(All, AdapterGoldens,
                         testing::Values("gpt2", "bert", "llama", "gpt2_patterns", "bert_layers", "gpt_neox"),
                         [](const auto& info) { return info.param; });

TEST(SavedAdapters, PeftLoadsThem) {
  const std::string python = python_with("torch, transformers, peft");
  if (python.empty()) GTEST_SKIP() << "no Python with torch, transformers and peft here";
  const TemporaryFolder folder;
  Words command{python, "-c", R"(
import sys
import peft, torch, transformers
from safetensors.torch import load_file
for base, saved, original in zip(sys.argv[1::3], sys.argv[2::3], sys.argv[3::3]):
    config = transformers.AutoConfig.from_pretrained(base)
    model = getattr(transformers, config.architectures[0]).from_pretrained(base).double()
    model = peft.PeftModel.from_pretrained(model, saved, autocast_adapter_dtype=False)
    loaded = peft.get_peft_model_state_dict(model)
    expected = load_file(original + "/adapter_model.safetensors")
    assert loaded.keys() == expected.keys(), (loaded.keys(), expected.keys())
    for name, tensor in expected.items():
        assert torch.equal(loaded[name].float(), tensor.float()), name
    print("the same")
)"};
  for (const char* name : {"gpt2", "bert", "llama", "gpt2_patterns", "bert_layers", "gpt_neox"}) {
    load_and_save(folder.file(name), words_of(name));
    command = command + Words{base_of(name), folder.file(name), adapters_of(name)};
  }
  const Finished checked = Process(command, folder.path()).wait(Workplace::kBound);
  EXPECT_EQ(checked.status, 0) << checked.err;
  EXPECT_EQ(times_in(checked.out, "the same"), 6) << checked.out;
}

const char* const kFourLayers = R"(
model: {type: gpt2, vocab_size: 61, n_positions: 12, n_embd: 24, n_layer: 4, n_head: 4, resid_pdrop: 0.1,
        initializer_range: 0.2}
lora: {rank: 2, alpha: 4, dropout: 0.2, targets: [c_attn, mlp.c_proj]}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 2, gradient_accumulation_steps: 2, max_steps: 3, seed: 7}
optimizer: {learning_rate: 1e-2, max_grad_norm: 0}
data: {format: random}
)";

// B is zero: nothing is added, and no mask of the model's own dropout is another.
TEST(Adapters, BeginAsTheModelThatTheyAreOf) {
  std::string plain = kFourLayers;
  const std::size_t begin = plain.find("lora:"), end = plain.find("device:");
  plain.erase(begin, end - begin);
  const Trained with = train(kFourLayers), without = train(plain);
  EXPECT_EQ(with.steps[0].loss, without.steps[0].loss);
  EXPECT_NE(with.steps[2].loss, without.steps[2].loss);
  for (const auto& [name, values] : with.gradients)
    EXPECT_EQ(std::any_of(values.begin(), values.end(), [](double x) { return x != 0; }),
              name.ends_with("lora_B.weight"))
        << name;
}

// A is uniform in 1 / sqrt(columns), whatever ranks it is cut over; its first gradient is zero.
TEST(Adapters, AreDrawnAsPeftDrawsThem) {
  const Words barely = {"training.max_steps=1", "optimizer.learning_rate=1e-12"};
  const Trained alone = train(kFourLayers, barely), two = train(kFourLayers, barely + ranks(2, 1));
  for (const auto& [name, values] : alone.parameters) {
    const bool is_b = name.ends_with("lora_B.weight");
    const double bound = is_b ? 1e-11 : 1 / std::sqrt(name.find("c_attn") != name.npos ? 24.0 : 96.0);
    double largest = 0, sum = 0;
    for (const double x : values) largest = std::max(largest, std::abs(x)), sum += x;
    EXPECT_LE(largest, bound) << name;
    if (is_b) continue;
    EXPECT_GE(largest, 0.8 * bound) << name;
    EXPECT_LE(std::abs(sum) / static_cast<double>(values.size()), 0.4 * bound) << name;
    EXPECT_EQ(two.parameters.at(name), values) << name;
  }
}

TEST(Adapters, TrainToTheSameBitsInEveryMode) {
  const Trained whole = train(kFourLayers);
  EXPECT_EQ(whole.predicted, whole.measured);
  EXPECT_EQ(whole.parameters.size(), 16u);
  for (const auto& [name, values] : whole.parameters) {
    EXPECT_TRUE(name.starts_with("base_model.model.transformer.h.")) << name;
    EXPECT_TRUE(std::any_of(values.begin(), values.end(), [](double x) { return x != 0; })) << name;
  }
  const Words no_dropout = {"lora.dropout=0"};
  const Trained undropped = train(kFourLayers, no_dropout);
  for (const std::string_view mode : kModes) {
    if (mode == "none") continue;
    // What adapters drop out of is read by nothing else: selective has norms to run again where they drop nothing.
    const bool selective = mode == "selective";
    expect_same_bits(selective ? undropped : whole,
                     train(kFourLayers, mode_words(mode) + (selective ? no_dropout : Words{})),
                     std::string(mode));
  }
  expect_same_bits(
      whole, train(kFourLayers, mode_words("full") + Words{ac("cpu_checkpointing=true"), ac("verify=true")}),
      "full in host memory");
}

uint64_t bytes_of(const Trained& trained, Category category) {
  uint64_t most = 0;
  for (const MemoryLedger::Row& row : trained.predicted.front().at_peak)
    most = std::max(most, row[static_cast<std::size_t>(category)]);
  return most;
}

// A and B of c_attn (24 to 72) and of mlp.c_proj (96 to 24) in four layers, and nothing of the rest.
TEST(Adapters, WhatIsFrozenTakesNothingBesideItself) {
  constexpr double kNumbers = 4 * 2 * (24 + 72 + 96 + 24), kSlack = 64 * 16;  // arenas align what they hold
  for (const auto& [precision, states] : {std::pair("fp32", 8), std::pair("bf16", 12)}) {
    const Trained trained = train(kFourLayers, {std::string("training.precision=") + precision});
    EXPECT_EQ(trained.predicted, trained.measured) << precision;
    EXPECT_NEAR(static_cast<double>(bytes_of(trained, Category::kGradient)), 4 * kNumbers, kSlack)
        << precision;
    EXPECT_NEAR(static_cast<double>(bytes_of(trained, Category::kOptimizer)), states * kNumbers, 3 * kSlack)
        << precision;
  }
}

// The numbers of the whole, whatever a rank holds of it.
TEST(Adapters, TheirShareOfTheModelIsSaid) {
  for (const Words& layout : {Words{}, ranks(2, 1)}) {
    Config config = read_config_text("c.yaml", kFourLayers, layout);
    resolve_planned_world(config);
    std::string said;
    for (const Remark& remark : plan_training(config, 0, 0).training.remarks)
      if (remark.key == "lora") said = remark.sentence;
    EXPECT_EQ(said, "trainable 1728 of 32424 parameters (5.3 %), in 16 of 68 tensors");
  }
}

std::string said_of(const Words& words, const std::string& yaml = kFourLayers) {
  try {
    Config config = read_config_text("c.yaml", yaml, words);
    resolve_planned_world(config);
    plan_training(config, 0, 0);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kConfiguration);
    return error.what();
  }
  return "accepted";
}

TEST(Adapters, MistakesAreNamed) {
  EXPECT_EQ(said_of({"lora.targets=c_attm"}),
            "lora.targets: the model has no module 'c_attm'; did you mean 'c_attn'?");
  EXPECT_EQ(said_of({"lora.targets=all-linear"}), "accepted");
  EXPECT_EQ(said_of({"lora.targets=[h.0.attn.c_attn, transformer.h.1.attn.c_attn]"}), "accepted");
  EXPECT_NE(said_of({"lora.modules_to_save=wte"}).find("which are one table in this model"),
            std::string::npos);
  EXPECT_EQ(said_of({"lora.modules_to_save=ln_f"}), "accepted");
  EXPECT_NE(said_of({"lora.modules_to_save=ln_g"}).find("has no module 'ln_g'"), std::string::npos);
  EXPECT_NE(refusal(kLeast + "lora: {alpha: 16}\n").find("lora.alpha has no effect with lora.rank 0"),
            std::string::npos);
  EXPECT_NE(refusal(kLeast + "lora: {rank: -1}\n").find("lora.rank: -1 is out of range"), std::string::npos);
  EXPECT_NE(refusal(kLeast + "lora: {rank: 2, merge: true}\n").find("lora.merge has no effect"),
            std::string::npos);
  EXPECT_NE(refusal(kLeast + "lora: {rank: 2}\ncheckpoint: {save_model: true}\n").find("model.pretrained"),
            std::string::npos);
  EXPECT_EQ(
      accepted(kLeast +
               "lora: {r: 2, lora_alpha: 3, lora_dropout: 0.1, target_modules: c_fc, use_rslora: true}\n")
          .lora.targets,
      Words{"c_fc"});
  EXPECT_EQ(accepted(kLeast + "lora: {rank: 2}\n").lora.targets, Words{"c_attn"});
  EXPECT_NE(refusal("lora_r: 8\n" + kLeast).find("'lora_r' of axolotl is lora.rank here"), std::string::npos);
}

TEST(Adapters, AreNamedInAnyOrder) {
  const TemporaryFolder folder;
  const double loss = load_and_save(folder.file("as it is"), words_of("gpt2"));
  EXPECT_EQ(load_and_save(folder.file("turned"), words_of("gpt2", {"lora.targets=[c_proj, c_attn]"})), loss);
}

TEST(Adapters, OfAnotherModelAreRefused) {
  const auto refused_with = [](const Words& words) {
    try {
      train(kYaml, words);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const std::string wrong = refused_with(
      words_of("gpt2", {"lora.path=" + adapters_of("llama"), "lora.targets=[c_attn]", "lora.dropout=0.1"}));
  EXPECT_NE(wrong.find("lora.targets"), std::string::npos) << wrong;
  Words narrow = words_of("gpt2");
  std::erase_if(narrow, [](const std::string& word) { return word.starts_with("model.pretrained="); });
  const std::string misshapen =
      refused_with(narrow + Words{"model.n_embd=28", "model.n_layer=2", "model.n_head=4",
                                  "model.vocab_size=61", "model.n_positions=16"});
  EXPECT_NE(
      misshapen.find("misshapen: base_model.model.transformer.h.0.attn.c_attn.lora_A.weight is [3, 24], "
                     "the model's is [3, 28]"),
      std::string::npos)
      << misshapen;
  const std::string rank = refused_with(words_of("gpt2", {"lora.rank=5"}));
  EXPECT_NE(rank.find("r is 3, and lora.rank is 5"), std::string::npos) << rank;
  const std::string as_model = refused_with(words_of("gpt2", {"model.pretrained=" + adapters_of("gpt2")}));
  EXPECT_NE(as_model.find("holds adapters; write lora.path="), std::string::npos) << as_model;
}

}  // namespace
}  // namespace recollect::test::adapters_test
