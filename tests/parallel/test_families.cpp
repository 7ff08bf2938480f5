// What every row of the table of model families must keep, and what is known of GPT-2.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "comm/collective_ops.h"
#include "engine/ops/ops.h"
#include "parallel/models/families.h"
#include "tests/engine/expect_error.h"

namespace recollect::test::families_test {
namespace {

class Families : public testing::TestWithParam<std::string> {
 protected:
  const ModelFamily& family_ = model_family(GetParam());
};

std::vector<std::string> all_types() {
  std::vector<std::string> types;
  for (const ModelFamily& family : model_families()) types.emplace_back(family.type);
  return types;
}

const ModelKey* key_of(const ModelFamily& family, const std::string& name) {
  for (const ModelKey& key : family.keys)
    if (key.name == name) return &key;
  return nullptr;
}

Model build(const ModelFamily& family, Graph& graph, const ModelValues& values, ParallelLayout layout = {}) {
  static const OpRegistry registry = [] {
    OpRegistry made;
    register_engine_ops(made);
    register_comm_ops(made);
    return made;
  }();
  return family.build(graph, registry, values, {.samples = 2, .sequence_length = 8}, layout, DType::kF32);
}

int64_t elements(const Model& model) {
  int64_t count = 0;
  for (const Parameter& p : model.parameters) count += p.rows * p.columns;
  return count;
}

TEST_P(Families, NamesAreUniqueAndDefaultsAdmitted) {
  EXPECT_EQ(find_model_family(GetParam()), &family_);
  std::set<std::string> names;
  for (const ModelKey& key : family_.keys) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    for (const std::string& alias : key.aliases) EXPECT_TRUE(names.insert(alias).second) << alias;
    EXPECT_FALSE(key.help.empty()) << key.name;
    double value = 0;
    if (const auto* integer = std::get_if<int64_t>(&key.otherwise)) value = static_cast<double>(*integer);
    if (const auto* real = std::get_if<double>(&key.otherwise)) value = *real;
    EXPECT_TRUE(key.low_open ? value > key.low : value >= key.low) << key.name;
    EXPECT_TRUE(key.high_open ? value < key.high : value <= key.high) << key.name;
    const auto* text = std::get_if<std::string>(&key.otherwise);
    if (text && !key.choices.empty()) {
      EXPECT_TRUE(std::find(key.choices.begin(), key.choices.end(), *text) != key.choices.end()) << *text;
    }
  }
  for (const auto& [name, value] : family_.fixed)
    if (const ModelKey* key = key_of(family_, name)) {
      EXPECT_EQ(key->otherwise, value) << name;
    }
}

TEST_P(Families, FactsAreThoseOfTheSketch) {
  ModelValues values = family_.sketch(
      family_, {.vocabulary = 61, .longest = 16, .width = 32, .layers = 3, .heads = 4, .dropout = 0});
  family_.complete(values);
  EXPECT_TRUE(family_.check(values).empty());
  const ModelFacts facts = family_.facts(values);
  EXPECT_EQ(facts.vocabulary.value, 61);
  EXPECT_EQ(facts.longest.value, 16);
  EXPECT_EQ(facts.layers.value, 3);
  std::vector<ModelFact> all = facts.divided;
  all.insert(all.end(), {facts.vocabulary, facts.longest, facts.layers});
  for (const ModelFact& fact : all) EXPECT_EQ(values.integer(fact.key), fact.value) << fact.key;
}

TEST_P(Families, WhatIsWrittenAsConfigJsonAreItsValues) {
  ModelValues values(family_.keys);
  family_.complete(values);
  const auto document = nlohmann::json::parse(family_.config_json(values, "float32"));
  EXPECT_EQ(document.at("model_type"), GetParam());
  EXPECT_EQ(document.at("torch_dtype"), "float32");
  for (const ModelKey& key : family_.keys) {
    ASSERT_TRUE(document.contains(key.name)) << key.name;
    if (document.at(key.name).is_null()) continue;  // Transformers' way to say "the default"
    std::visit([&](const auto& value) { EXPECT_EQ(document.at(key.name), value) << key.name; },
               values.at(key.name));
  }
  for (const auto& [name, value] : family_.fixed)
    if (document.contains(name))
      std::visit([&, &name = name](const auto& only) { EXPECT_EQ(document.at(name), only) << name; }, value);
}

TEST_P(Families, BuildsTheSameWholeModelForEveryNumberOfRanks) {
  ModelValues values = family_.sketch(
      family_, {.vocabulary = 61, .longest = 16, .width = 32, .layers = 2, .heads = 4, .dropout = 0.1});
  family_.complete(values);
  Graph one, two;
  const Model alone = build(family_, one, values), half = build(family_, two, values, {1, 2, true});
  std::set<std::string> names;
  ASSERT_EQ(alone.parameters.size(), half.parameters.size());
  for (std::size_t i = 0; i < alone.parameters.size(); ++i) {
    const Parameter &whole = alone.parameters[i], &part = half.parameters[i];
    EXPECT_EQ(whole.name, part.name);
    EXPECT_EQ(whole.rows, part.rows);
    EXPECT_EQ(whole.columns, part.columns);
    for (const Parameter::FileTensor& tensor : whole.file_tensors())
      EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
  }
  EXPECT_EQ(elements(alone), elements(half));
  for (const auto& [name, input] : alone.inputs) {
    EXPECT_EQ(one.value(input).category, Category::kInput) << name;
    EXPECT_EQ(two.value(half.input(name)).shape, one.value(input).shape) << name;
  }
  EXPECT_EQ(one.value(alone.loss).shape, Shape{1});
  EXPECT_TRUE(one.value(alone.loss).accumulator);
}

INSTANTIATE_TEST_SUITE_P(All, Families, testing::ValuesIn(all_types()),
                         [](const auto& info) { return info.param; });

TEST(Gpt2, HasAsManyParametersAsPublished) {
  const ModelFamily& family = model_family("gpt2");
  ModelValues values(family.keys);
  ASSERT_EQ(family.complete(values).size(), 1u);
  EXPECT_EQ(values.integer("n_inner"), 3072);
  Graph graph;
  EXPECT_EQ(elements(build(family, graph, values)), 124439808);
}

TEST(Gpt2, PassesOverTheTiedHeadAndOldMasks) {
  Graph graph;
  const ModelFamily& family = model_family("gpt2");
  ModelValues values(family.keys);
  family.complete(values);
  const FileNames files = build(family, graph, values).files;
  EXPECT_EQ(files.prefix, "transformer.");
  for (const char* name : {"lm_head.weight", "h.0.attn.bias", "h.11.attn.masked_bias"})
    EXPECT_TRUE(files.passed_over(name)) << name;
  for (const char* name : {"h.0.attn.c_attn.bias", "wte.weight", "lm_head.bias"})
    EXPECT_FALSE(files.passed_over(name)) << name;
}

TEST(ModelValues, AreOfTheirKeysAndKinds) {
  ModelValues values({{.name = "size", .otherwise = int64_t{3}, .help = "a size"},
                      {.name = "tied", .otherwise = true, .help = "a flag"}});
  values.set("size", int64_t{5});
  EXPECT_EQ(values.integer("size"), 5);
  EXPECT_TRUE(values.flag("tied"));
  expect_error(ExitCode::kInternal, {"no key 'sise'"}, [&] { values.at("sise"); });
  expect_error(ExitCode::kInternal, {"'size' is of another kind"}, [&] { values.real("size"); });
  expect_error(ExitCode::kInternal, {"another kind"}, [&] { values.set("size", 0.5); });
  expect_error(ExitCode::kInternal, {"no model family 'rwkv'"}, [] { model_family("rwkv"); });
}

}  // namespace
}  // namespace recollect::test::families_test
