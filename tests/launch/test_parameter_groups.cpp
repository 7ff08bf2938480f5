// Groups of parameters, layer-wise decay and frozen parameters: what is said of mistakes, and that what is frozen costs
// neither gradients nor states while the rest trains to the same bits in every mode and layout.
#include <gtest/gtest.h>

#include <algorithm>

#include <fmt/format.h>

#include "engine/io/safetensors.h"
#include "launch/program/estimate.h"
#include "parallel/optimizers/groups.h"
#include "tests/launch/config_test_support.h"
#include "tests/launch/modes.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::parameter_groups_test {
namespace {

using Words = std::vector<std::string>;

Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

const char* const kFourLayers = R"(
model: {type: gpt2, vocab_size: 61, n_positions: 12, n_embd: 24, n_layer: 4, n_head: 4, resid_pdrop: 0.1,
        initializer_range: 0.2}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 2, gradient_accumulation_steps: 2, max_steps: 3, seed: 7}
optimizer: {learning_rate: 1e-2, weight_decay: 0.1, max_grad_norm: 0}
data: {format: random}
)";
const char* const kBert = R"(
task: masked_lm
model: {type: bert, vocab_size: 41, hidden_size: 24, num_hidden_layers: 3, num_attention_heads: 4,
        intermediate_size: 28, max_position_embeddings: 12, initializer_range: 0.2}
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 2, max_steps: 2, seed: 7}
optimizer: {learning_rate: 1e-2, max_grad_norm: 0}
data: {format: random, mask_token: 3}
)";

const char* const kLowerFrozen = "optimizer.groups=[{match: ['w?e.weight', h.0.*, h.1.*], frozen: true}]";

bool is_lower(const std::string& name) {
  return name.find("wte") != name.npos || name.find("wpe") != name.npos || name.find("h.0.") != name.npos ||
         name.find("h.1.") != name.npos;
}

TEST(ParameterGroups, PatternsHaveStars) {
  for (const auto& [pattern, name] :
       std::vector<std::pair<std::string, std::string>>{{"*", "h.0.ln_1.weight"},
                                                        {"", ""},
                                                        {"h.0.*", "h.0.ln_1.weight"},
                                                        {"*.bias", "h.0.attn.c_attn.bias"},
                                                        {"*attn*weight", "h.0.attn.c_attn.weight"},
                                                        {"h.?.ln_?.weight", "h.0.ln_1.weight"},
                                                        {"*.0*0.*", "a.0.b.00.c"},
                                                        {"wte.weight", "wte.weight"}})
    EXPECT_TRUE(matches(pattern, name)) << pattern;
  for (const auto& [pattern, name] :
       std::vector<std::pair<std::string, std::string>>{{"h.1.*", "h.11.ln_1.weight"},
                                                        {"*.bias", "h.0.bias.weight"},
                                                        {"wte", "wte.weight"},
                                                        {"?", ""},
                                                        {"h.?", "h.10"},
                                                        {"*a*b", "bba"}})
    EXPECT_FALSE(matches(pattern, name)) << pattern;
}

TEST(ParameterGroups, AreReadAndPrinted) {
  const std::string printed =
      "[{match: [\"*.bias\", ln_f.weight], learning_rate: 0.001, weight_decay: 0}, "
      "{match: [\"h.0.*\"], frozen: true}]";
  const Config config = accepted(kLeast +
                                 "optimizer:\n  groups:\n"
                                 "  - {match: ['*.bias', ln_f.weight], lr: 1e-3, weight_decay: 0}\n"
                                 "  - match: h.0.*\n    frozen: true\n");
  EXPECT_EQ(flatten(config).at("optimizer.groups"), printed);
  EXPECT_EQ(flatten(accepted(dump_resolved(config))), flatten(config));
  EXPECT_EQ(flatten(accepted(kLeast, {"optimizer.groups=" + printed})), flatten(config));
  EXPECT_EQ(flatten(accepted(kLeast)).at("optimizer.groups"), "[]");
}

TEST(ParameterGroups, MistakesAreNamed) {
  const auto said = [](const std::string& groups) {
    return refusal(kLeast + "optimizer: {groups: " + groups + "}\n");
  };
  const std::string at = "c.yaml:2:21: optimizer.groups: ", first = "c.yaml:2:22: optimizer.groups: [x] ";
  EXPECT_EQ(said("[{match: x}]"), first +
                                      "says nothing beside match: give learning_rate, weight_decay or "
                                      "frozen: true");
  EXPECT_EQ(said("[{match: x, frozen: true, lr: 1}]"),
            first + "is frozen, and has a learning_rate or a weight_decay");
  EXPECT_EQ(said("[{match: x, learning_rate: 0}]"),
            first +
                "has a learning_rate of 0: write frozen: true, which computes no gradients and keeps no "
                "states");
  EXPECT_EQ(said("[{frozen: true}]"),
            at + "group 1: match is missing: patterns of names, such as \"*.bias\"");
  EXPECT_EQ(said("[{match: x, frozen: true}, {mach: y}]"),
            at + "group 2: 'mach': it is none of match, learning_rate, weight_decay, frozen; did you mean "
                 "'match'?");
  EXPECT_EQ(said("[{match: x, weight_decay: -1}]"),
            at + "group 1: 'weight_decay': -1 is out of range; must be at least 0");
  EXPECT_EQ(said("[{match: [], frozen: true}]"), at + "group 1: 'match': must not be empty");
  EXPECT_EQ(said("[x]"), at + "group 1: expected a mapping with match, found 'x'");
  EXPECT_EQ(said("{match: x}"),
            at + "expected a list of groups such as {match: \"*.bias\", weight_decay: 0}, found a mapping");
  EXPECT_EQ(
      refusal(kLeast + "optimizer: {lr: 0, groups: [{match: x, weight_decay: 0}]}\n"),
      "c.yaml:2:28: optimizer.groups has no effect with optimizer.learning_rate 0: no parameter changes");
  EXPECT_EQ(refusal(kLeast + "optimizer: {layer_decay: 0}\n"),
            "c.yaml:2:26: optimizer.layer_decay: 0 is out of range; must be in (0, 1]");
}

std::string refused_by_model(const std::string& yaml, const std::string& groups) {
  try {
    Config config = read_config_text("c.yaml", yaml, {"optimizer.groups=" + groups});
    resolve_planned_world(config);
    plan_training(config, 0, 0);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kConfiguration);
    return error.what();
  }
  return "accepted";
}

TEST(ParameterGroups, MustFindParameters) {
  EXPECT_NE(refused_by_model(kFourLayers, "[{match: nothing, frozen: true}]")
                .find("command line: optimizer.groups=[{match: nothing, frozen: true}]: optimizer.groups: "
                      "[nothing] matches no parameter"),
            std::string::npos);
  EXPECT_NE(refused_by_model(kFourLayers, "[{match: ['*.bias', nothing], weight_decay: 0}]")
                .find("[*.bias, nothing] 'nothing' in it matches no parameter"),
            std::string::npos);
  EXPECT_NE(refused_by_model(kFourLayers, "[{match: h.*, weight_decay: 0}, {match: h.0.*, frozen: true}]")
                .find("[h.0.*] matches only what is in groups before it"),
            std::string::npos);
  EXPECT_NE(refused_by_model(kFourLayers, "[{match: '*', frozen: true}]").find("freeze every parameter"),
            std::string::npos);
  const char* const llama = R"(
model: {type: llama, vocab_size: 61, hidden_size: 24, num_hidden_layers: 1, num_attention_heads: 4,
        num_key_value_heads: 2, intermediate_size: 28, max_position_embeddings: 12}
data: {format: random}
)";
  EXPECT_NE(refused_by_model(llama, "[{match: '*q_proj*', frozen: true}]")
                .find("matches layers.0.self_attn.q_proj.weight and not layers.0.self_attn.k_proj.weight"),
            std::string::npos)
      << refused_by_model(llama, "[{match: '*q_proj*', frozen: true}]");
  EXPECT_EQ(refused_by_model(llama, "[{match: '*self_attn.?_proj*', frozen: true}]"), "accepted");
}

TEST(FrozenParameters, HaveNoGradientsAndTheOthersTheSame) {
  const Words one_step = {"training.max_steps=1"};
  const Trained all = train(kFourLayers, one_step),
                upper = train(kFourLayers, one_step + Words{kLowerFrozen});
  const Trained longer = train(kFourLayers, {kLowerFrozen});
  EXPECT_EQ(upper.predicted, upper.measured);
  std::size_t frozen = 0;
  for (const auto& [name, values] : all.gradients) {
    const bool is_frozen = is_lower(name);
    frozen += is_frozen ? 1 : 0;
    ASSERT_EQ(upper.gradients.contains(name), !is_frozen) << name;
    if (!is_frozen) {
      EXPECT_EQ(upper.gradients.at(name), values) << name;
    }
    EXPECT_EQ(upper.parameters.at(name) == longer.parameters.at(name), is_frozen) << name;
  }
  EXPECT_EQ(frozen, 26u);
}

uint64_t bytes_of(const Trained& trained, Category category) {
  uint64_t most = 0;
  for (const MemoryLedger::Row& row : trained.predicted.front().at_peak)
    most = std::max(most, row[static_cast<std::size_t>(category)]);
  return most;
}

// Of AdamW two states, in bf16 a master copy; of the layers below no activations either.
TEST(FrozenParameters, TakeNoMemoryBesideThemselves) {
  for (const char* precision : {"fp32", "bf16"}) {
    const Words words = {std::string("training.precision=") + precision};
    const Trained all = train(kFourLayers, words), upper = train(kFourLayers, words + Words{kLowerFrozen});
    EXPECT_EQ(upper.predicted, upper.measured);
    uint64_t frozen = 0, masters = 0;
    for (const auto& [name, values] : all.parameters)
      if (is_lower(name)) {
        frozen += values.size();
        if (precision == std::string("bf16") && !name.ends_with("bias") && name.find(".ln_") == name.npos)
          masters += values.size();
      }
    // Arenas align what they hold.
    const auto slack = static_cast<double>(64 * 3 * 26);
    const auto saved = [&](Category category) {
      return static_cast<double>(bytes_of(all, category) - bytes_of(upper, category));
    };
    EXPECT_NEAR(saved(Category::kOptimizer), static_cast<double>(8 * frozen + 4 * masters), slack)
        << precision;
    EXPECT_NEAR(saved(Category::kGradient), static_cast<double>(4 * frozen), slack) << precision;
    EXPECT_EQ(bytes_of(all, Category::kParameter), bytes_of(upper, Category::kParameter)) << precision;
    EXPECT_LT(bytes_of(upper, Category::kActivation), bytes_of(all, Category::kActivation)) << precision;
  }
}

TEST(FrozenParameters, TrainToTheSameBitsInEveryMode) {
  for (const char* const groups :
       {kLowerFrozen, "optimizer.groups=[{match: ['*.weight'], frozen: true}]",
        "optimizer.groups=[{match: ['h.1.*', 'h.3.mlp*', wte.weight], frozen: true}]"}) {
    const Trained whole = train(kFourLayers, {groups});
    EXPECT_EQ(whole.predicted, whole.measured) << groups;
    for (const std::string_view mode : kModes) {
      // What weights alone read is what selective runs again.
      const bool nothing_to_run =
          mode == "selective" && std::string_view(groups).find("'*.weight'") != std::string_view::npos;
      if (mode == "none" || nothing_to_run) continue;
      expect_same_bits(whole, train(kFourLayers, mode_words(mode) + Words{groups}),
                       fmt::format("{} with {}", mode, groups));
    }
    expect_same_bits(whole,
                     train(kFourLayers, mode_words("full") +
                                            Words{groups, ac("cpu_checkpointing=true"), ac("verify=true")}),
                     fmt::format("full in host memory with {}", groups));
  }
}

// A head whose table and bias are frozen apart from each other.
TEST(FrozenParameters, OfAHeadAndItsBias) {
  const Trained all = train(kBert, {"training.max_steps=1"});
  for (const char* const pattern :
       {"[bert.embeddings.*]", "[cls.predictions.bias]", "[bert.embeddings.*, cls.predictions.bias]",
        "['*.bias']", "['*.weight']"}) {
    const Trained some = train(
        kBert,
        {"training.max_steps=1", fmt::format("optimizer.groups=[{{match: {}, frozen: true}}]", pattern)});
    EXPECT_EQ(some.predicted, some.measured) << pattern;
    EXPECT_LT(some.gradients.size(), all.gradients.size()) << pattern;
    for (const auto& [name, values] : some.gradients) EXPECT_EQ(values, all.gradients.at(name)) << name;
  }
}

TEST(FrozenParameters, AreTheSameOnSeveralRanks) {
  const Words reference = {"device.backend=reference",
                           "device.threads=0",
                           "optimizer.name=sgd",
                           "training.precision=fp64",
                           kLowerFrozen,
                           "training.global_batch_size=4",
                           "training.gradient_accumulation_steps=0"};
  const auto trained_of = [](Tensors all) {
    std::erase_if(all, [](const auto& item) { return is_lower(item.first); });  // biases there are zero
    return all;
  };
  const Trained alone = train(kFourLayers, reference);
  for (const char* layout : {"tensor_parallel_size=2", "data_parallel_size=2"}) {
    const Trained two = train(
        kFourLayers, reference + Words{std::string("parallelism.") + layout,
                                       "parallelism.ranks_per_process=2", "parallelism.communicator=local"});
    EXPECT_LE(largest_difference(trained_of(alone.parameters), trained_of(two.parameters)), 1e-12) << layout;
    for (const auto& [name, values] : alone.parameters)
      if (is_lower(name)) {
        EXPECT_EQ(values, two.parameters.at(name)) << name;
      }
    EXPECT_LE(largest_difference(alone.gradients, two.gradients), 1e-12) << layout;
    EXPECT_EQ(two.predicted, two.measured) << layout;
  }
}

}  // namespace
}  // namespace recollect::test::parameter_groups_test
