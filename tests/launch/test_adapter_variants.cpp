// Which modules get an adapter, of which rank and scale, and what is trained whole: for every way of saying it that PEFT has,
// against what PEFT makes of it (tests/golden/make_adapter_goldens.py). And what is refused, by its name.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include <fmt/format.h>

#include "engine/io/json.h"
#include "launch/config/lora_keys.h"
#include "launch/program/estimate.h"
#include "parallel/module_pattern.h"
#include "tests/launch/config_test_support.h"

namespace recollect {
namespace {

using Json = nlohmann::ordered_json;

const std::string kGolden = std::string(RECOLLECT_SOURCE_DIR) + "/tests/golden/";

Json read_json(const std::string& path) {
  Json document;
  std::ifstream(kGolden + path) >> document;
  return document;
}

struct Adapted {
  std::map<std::string, std::pair<int64_t, double>> adapters;  // rank and scale, by module
  std::set<std::string> whole;                                 // tensors

  bool operator==(const Adapted&) const = default;
};

Adapted adapted_by(const std::string& yaml) {
  Config config = read_config_text("c.yaml", yaml, {});
  resolve_planned_world(config);
  const PlannedTraining planned = plan_training(config, 0, 0);
  const Model& model = planned.training.model;
  const AdapterRules rules(lora_settings(config), model.files);
  Adapted adapted;
  for (const Parameter& p : model.parameters) {
    if (p.adapter && p.name.ends_with(".lora_A.weight")) {
      const std::string module(module_of(module_of(p.name)));
      adapted.adapters[std::string(module_of(module_of(model.files.in_file(p.name))))] = {
          p.rows, rules.scale_of(module)};
    } else if (!p.adapter && p.saved_with_adapters) {
      for (const Parameter::FileTensor& tensor : p.file_tensors())
        adapted.whole.insert(model.files.in_file(tensor.name));
    }
  }
  return adapted;
}

std::string yaml_of(const std::string& name, const std::string& lora) {
  const Json described = read_json("adapters/" + name + "/case.json");
  const std::string base = kGolden + described["base"].get<std::string>();
  return fmt::format(
      "task: {}\nmodel: {{pretrained: {}}}\ndata: {{format: jsonl, path: {}/batch.jsonl, "
      "sequence_length: 12}}\nlora: {}\n",
      described["task"].get<std::string>(), base, base, lora);
}

std::string refusal_of(const std::string& yaml) {
  try {
    adapted_by(yaml);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kConfiguration) << error.what();
    return error.what() + std::string(" | ") + error.hint();
  }
  return "accepted";
}

TEST(AdapterVariants, AreThoseOfPeft) {
  const Json variants = read_json("adapters/variants.json");
  EXPECT_GE(variants.size(), 42u);
  for (const Json& variant : variants) {
    SCOPED_TRACE(variant["lora"].dump());
    const std::string yaml = yaml_of(variant["case"].get<std::string>(), variant["lora"].dump());
    if (variant.contains("refused")) {
      EXPECT_NE(refusal_of(yaml).find("lora."), std::string::npos);
      continue;
    }
    Adapted expected;
    for (const auto& [module, numbers] : variant["adapters"].items())
      expected.adapters[module] = {numbers[0].get<int64_t>(), numbers[1].get<double>()};
    for (const Json& tensor : variant["whole"]) expected.whole.insert(tensor.get<std::string>());
    const Adapted ours = adapted_by(yaml);
    EXPECT_EQ(ours.adapters, expected.adapters);
    EXPECT_EQ(ours.whole, expected.whole);
  }
}

TEST(AdapterVariants, WhatCannotBeIsNamed) {
  const auto says = [](const std::string& name, const std::string& lora, const std::string& mentioned) {
    const std::string text = refusal_of(yaml_of(name, lora));
    EXPECT_NE(text.find(mentioned), std::string::npos) << lora << ": " << text;
  };
  says("gpt2", "{rank: 2, targets: wte}", "embeddings and heads of language models get no adapters here");
  says("gpt2", "{rank: 2, targets: lm_head}", "'lm_head' is lm_head.weight, which is the same table as");
  says("llama", "{rank: 2, targets: [q_proj, lm_head]}",
       "'lm_head' is lm_head.weight, and embeddings and heads");
  says("gpt2", "{rank: 2, targets: '.*'}", "embeddings and heads of language models get no adapters here");
  says("gpt2", "{rank: 2, targets: ['.*attn', c_fc]}", "is a regular expression, which stands alone");
  says("gpt2", "{rank: 2, targets: '(c_attn'}", "'(c_attn' is no regular expression that can be read here");
  says("gpt2", R"({rank: 2, targets: '(c)_attn\1'})", "is no regular expression that can be read here");
  says("gpt2", "{rank: 2, targets: '(?i).*C_ATTN'}", "has '(?i', which is not supported");
  says("gpt2", R"({rank: 2, targets: '.*\.c_atn'})", R"(no whole name of a module matches '.*\.c_atn')");
  says("gpt2", "{rank: 2, exclude_modules: [c_atn]}",
       "lora.exclude_modules: the model has no module 'c_atn'; did you");
  says("gpt2", "{rank: 2, layers_to_transform: [2]}", "names layer 2, and those of the model are 0 to 1");
  says("gpt2", "{rank: 2, layers_to_transform: [a]}", "names layer a, and those of the model are 0 to 1");
  says("gpt2", "{rank: 2, layers_to_transform: 0, layers_pattern: layers}",
       "is in the layers 0 of lora.layers_to_t");
  says("gpt2", "{rank: 2, layers_pattern: h}",
       "lora.layers_pattern has no effect without lora.layers_to_transform");
  says("gpt2", "{rank: 2, targets: '.*c_attn', layers_to_transform: 0}",
       "does not go with the regular expression");
  says("gpt2", "{rank: 2, rank_pattern: {c_fc: 4}}",
       "lora.rank_pattern: 'c_fc' is of no module that has an adapter");
  says("gpt2", "{rank: 2, rank_pattern: {c_attn: 4, h.0.attn.c_attn: 2}}",
       "'h.0.attn.c_attn' is of no module");
  says("gpt2", "{rank: 2, rank_pattern: {c_attn: 1.5}}",
       "1.5 is no rank; it is a whole number from 1 to 65536");
  says("gpt2", "{rank: 2, rank_pattern: {c_attn: 0}}", "'c_attn': 0 is out of range");
  says("gpt2", "{rank: 2, rank_pattern: [c_attn]}", "expected numbers by name such as {c_attn: 4}");
  says("gpt2", "{rank: 2, alpha_pattern: {'(': 4}}", "is no regular expression that can be read here");
  says("gpt2", "{rank: 2, use_dora: true}", "'use_dora' is a key of PEFT; not supported");
}

TEST(AdapterVariants, AreGivenOnTheCommandLineToo) {
  const Config config =
      accepted(kLeast + "lora: {rank: 2}\n",
               {"lora.rank_pattern={c_attn: 4, h.0.attn.c_attn: 2}", R"(lora.targets=.*\.c_attn)"});
  EXPECT_EQ(config.lora.rank_pattern, (NumbersByPattern{{"c_attn", 4}, {"h.0.attn.c_attn", 2}}));
  EXPECT_EQ(config.lora.targets, std::vector<std::string>{R"(.*\.c_attn)"});
}

// No pattern takes long, whoever wrote the adapters' file.
TEST(ModulePattern, MatchesInLinearTime) {
  const std::string name(60, 'a');
  EXPECT_FALSE(ModulePattern("key", "(a|a)*(a|a)*b").matches_whole(name));
  EXPECT_TRUE(ModulePattern("key", "(?:a|aa)*").matches_whole(name));
}

}  // namespace
}  // namespace recollect
