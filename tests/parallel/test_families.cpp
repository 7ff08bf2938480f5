// What every row of the table of model families must keep, and what is known of GPT-2.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "comm/collective_ops.h"
#include "engine/io/json.h"
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

TaskSettings settings_of(const ModelFamily& family, const ModelValues& values, Task task) {
  const ModelFacts facts = family.facts(values);
  return {.task = task,
          .labels = facts.labels,
          .problem = facts.problem,
          .choices = task == Task::kMultipleChoice ? 2 : 1};
}

// Of the family's first task, where none is named.
Model build(const ModelFamily& family, Graph& graph, const ModelValues& values, ParallelLayout layout = {},
            std::optional<Task> task = {}) {
  static const OpRegistry registry = [] {
    OpRegistry made;
    register_engine_ops(made);
    register_comm_ops(made);
    return made;
  }();
  return family.build(graph, registry, values,
                      settings_of(family, values, task.value_or(family.tasks.front())),
                      {.samples = 2, .sequence_length = 8}, layout, DType::kF32);
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
    const std::string section = key.name.substr(0, key.name.rfind('.') + 1);
    for (const std::string& alias : key.aliases)
      EXPECT_TRUE(names.insert(section + alias).second) << section + alias;
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
  for (const ModelFact& fact : all)
    EXPECT_EQ(values.integer(fact.key),
              fact.value + (fact.key == facts.longest.key ? facts.kept_positions : 0))
        << fact.key;
}

// "a.b" is the key b of the object a.
const nlohmann::json* find_key(const nlohmann::json& document, const std::string& name) {
  const std::size_t dot = name.find('.');
  const auto found = document.find(name.substr(0, dot));
  if (found == document.end() || found->is_null()) return nullptr;
  return dot == std::string::npos ? &*found : find_key(*found, name.substr(dot + 1));
}

TEST_P(Families, WhatIsWrittenAsConfigJsonAreItsValues) {
  ModelValues values(family_.keys);
  family_.complete(values);
  for (const Task task : family_.tasks) {
    auto document = nlohmann::json::parse(family_.config_json(values, task, "float32"));
    EXPECT_EQ(document.at("model_type"), GetParam());
    EXPECT_EQ(document.at("torch_dtype"), "float32");
    family_.translate(document);
    for (const ModelKey& key : family_.keys) {
      const nlohmann::json* written = find_key(document, key.name);
      if (!written) continue;  // of another task, or null: Transformers' way to say "the default"
      std::visit([&](const auto& value) { EXPECT_EQ(*written, value) << key.name; }, values.at(key.name));
    }
    for (const auto& [name, value] : family_.fixed)
      if (document.contains(name))
        std::visit([&, &name = name](const auto& only) { EXPECT_EQ(document.at(name), only) << name; },
                   value);
  }
}

// A value other than the default, where the values of other keys let it be read.
ModelValue other_value(const ModelKey& key) {
  if (const auto* number = std::get_if<double>(&key.otherwise);
      number && key.name.find("rope_scaling.") != std::string::npos)
    return *number + 0.5;
  if (key.name.ends_with("rope_scaling.short_factor") || key.name.ends_with("rope_scaling.long_factor"))
    return std::string("1.5, 2.0");
  return key.otherwise;
}

// No key is lost on the way to config.json and back.
TEST_P(Families, EveryKeyIsWrittenForSomeTask) {
  for (const ModelKey& key : family_.keys) {
    const std::string type_key = key.name.substr(0, key.name.find('.')) + ".rope_type";
    const ModelKey* const types = key_of(family_, type_key);
    const bool of_type = key.name.find("rope_scaling.") != std::string::npos;
    bool written = false;
    for (const std::string_view type : of_type ? types->choices : std::vector<std::string_view>{""}) {
      ModelValues values(family_.keys);
      if (of_type) values.set(type_key, std::string(type));
      if (&key != types) values.set(key.name, other_value(key));
      family_.complete(values);
      for (const Task task : family_.tasks) {
        auto document = nlohmann::json::parse(family_.config_json(values, task, "float32"));
        const bool null = document.contains(key.name) && document[key.name].is_null();
        family_.translate(document);
        const nlohmann::json* const found = find_key(document, key.name);
        written |= null || (found &&
                            (!of_type || *found == std::visit([](const auto& v) { return nlohmann::json(v); },
                                                              values.at(key.name))));
      }
    }
    EXPECT_TRUE(written) << key.name;
  }
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

INSTANTIATE_TEST_SUITE_P(All, Families, testing::ValuesIn(all_types()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(Families, BuildsEveryTask) {
  ModelValues values = family_.sketch(
      family_, {.vocabulary = 61, .longest = 16, .width = 32, .layers = 2, .heads = 4, .dropout = 0.1});
  family_.complete(values);
  for (const Task task : family_.tasks)
    for (const ParallelLayout& layout :
         {ParallelLayout{}, ParallelLayout{1, 4, false}, ParallelLayout{3, 4, true}}) {
      Graph graph;
      const Model model = build(family_, graph, values, layout, task);
      EXPECT_EQ(graph.value(model.loss).shape, Shape{1}) << name_of(task);
      EXPECT_EQ(graph.value(model.scale).shape, Shape{settings_of(family_, values, task).columns()});
    }
}

// Of BERT without heads, the pooler included, and what its classifier adds.
TEST(Bert, HasAsManyParametersAsPublished) {
  const ModelFamily& family = model_family("bert");
  const auto count = [&](int64_t width, int64_t layers, int64_t heads) {
    ModelValues values(family.keys);
    values.set("hidden_size", width);
    values.set("intermediate_size", 4 * width);
    values.set("num_hidden_layers", layers);
    values.set("num_attention_heads", heads);
    family.complete(values);
    Graph graph;
    return elements(build(family, graph, values, {}, Task::kSequenceClassification)) - 2 * (width + 1);
  };
  EXPECT_EQ(count(768, 12, 12), 109482240);
  EXPECT_EQ(count(1024, 24, 16), 335141888);
}

TEST(Bert, FindsTensorsByTheNamesOfOldFilesToo) {
  const ModelFamily& family = model_family("bert");
  ModelValues values(family.keys);
  family.complete(values);
  Graph graph;
  const FileNames files = build(family, graph, values).files;
  EXPECT_EQ(files.in_file("embeddings.LayerNorm.weight"), "bert.embeddings.LayerNorm.weight");
  EXPECT_EQ(files.in_file("cls.predictions.bias"), "cls.predictions.bias");
  EXPECT_EQ(files.older_name("embeddings.LayerNorm.weight"), "embeddings.LayerNorm.gamma");
  EXPECT_EQ(files.older_name("cls.predictions.transform.LayerNorm.bias"),
            "cls.predictions.transform.LayerNorm.beta");
  EXPECT_EQ(files.older_name("encoder.layer.0.output.dense.bias"), "");
  for (const char* name : {"cls.seq_relationship.weight", "pooler.dense.bias", "embeddings.position_ids"})
    EXPECT_TRUE(files.passed_over(name)) << name;
  EXPECT_FALSE(files.passed_over("encoder.layer.12.output.dense.bias"));
}

// Without heads RoBERTa base, XLM-RoBERTa base and DistilBERT base, with its head of masked_lm ModernBERT base.
TEST(Bert, KinHaveAsManyParametersAsPublished) {
  const auto count = [](const char* type, Task task, const std::map<std::string, int64_t>& sizes) {
    const ModelFamily& family = model_family(type);
    ModelValues values(family.keys);
    for (const auto& [key, value] : sizes) values.set(key, value);
    family.complete(values);
    Graph graph;
    return elements(build(family, graph, values, {}, task));
  };
  const int64_t head = 2 * (768 + 1);
  EXPECT_EQ(count("roberta", Task::kTokenClassification,
                  {{"max_position_embeddings", 514}, {"type_vocab_size", 1}}) -
                head,
            124055040);
  EXPECT_EQ(count("xlm-roberta", Task::kTokenClassification,
                  {{"vocab_size", 250002}, {"max_position_embeddings", 514}, {"type_vocab_size", 1}}) -
                head,
            277453056);
  EXPECT_EQ(count("distilbert", Task::kTokenClassification, {}) - head, 66362880);
  EXPECT_EQ(count("modernbert", Task::kMaskedLm, {}), 149655232);
}

// Meta's Llama 2 7B, Mistral 7B v0.1, Qwen2 7B, Qwen3 0.6B (tied head), Phi-3 mini, GPT-NeoX 20B, Pythia 70M,
// Gemma 2 2B and Gemma 3 1B.
TEST(Llama, HaveAsManyParametersAsPublished) {
  const auto count = [](const char* type, const std::map<std::string, int64_t>& sizes) {
    const ModelFamily& family = model_family(type);
    ModelValues values(family.keys);
    for (const auto& [key, value] : sizes) values.set(key, value);
    family.complete(values);
    Graph graph;
    return elements(build(family, graph, values));
  };
  EXPECT_EQ(count("llama", {}), 6738415616);
  EXPECT_EQ(count("mistral", {}), 7241732096);
  EXPECT_EQ(count("qwen2", {{"vocab_size", 152064},
                            {"hidden_size", 3584},
                            {"intermediate_size", 18944},
                            {"num_hidden_layers", 28},
                            {"num_attention_heads", 28},
                            {"num_key_value_heads", 4}}),
            7615616512);
  EXPECT_EQ(count("qwen3", {{"hidden_size", 1024},
                            {"intermediate_size", 3072},
                            {"num_hidden_layers", 28},
                            {"num_attention_heads", 16},
                            {"num_key_value_heads", 8}}) -
                151936 * 1024,
            596049920);
  EXPECT_EQ(count("phi3", {}), 3821079552);
  EXPECT_EQ(count("gpt_neox", {}), 20554567680);
  EXPECT_EQ(count("gpt_neox", {{"vocab_size", 50304},
                               {"hidden_size", 512},
                               {"intermediate_size", 2048},
                               {"num_hidden_layers", 6},
                               {"num_attention_heads", 8}}),
            70426624);
  EXPECT_EQ(count("gemma2", {}), 2614341888);
  EXPECT_EQ(count("gemma3_text", {{"vocab_size", 262144},
                                  {"hidden_size", 1152},
                                  {"intermediate_size", 6912},
                                  {"num_attention_heads", 4},
                                  {"num_key_value_heads", 1}}),
            999885952);
}

// One for each kind of rotary positions that some layer has.
TEST(Gemma3, HasNoMoreRotaryTablesThanItNeeds) {
  const auto tables = [](int64_t layers, const char* types, double local_base) {
    const ModelFamily& family = model_family("gemma3_text");
    ModelValues values = family.sketch(
        family, {.vocabulary = 61, .longest = 16, .width = 32, .layers = layers, .heads = 4, .dropout = 0});
    values.set("layer_types", std::string(types));
    values.set("rope_local_base_freq", local_base);
    family.complete(values);
    Graph graph;
    build(family, graph, values);
    int64_t count = 0;
    for (const OpId id : graph.op_ids()) count += graph.op(id).def->name == "rotary_table";
    return count;
  };
  EXPECT_EQ(tables(6, "", 10000), 2);
  EXPECT_EQ(tables(5, "", 10000), 1);
  EXPECT_EQ(tables(6, "", 1e6), 1);
  EXPECT_EQ(tables(2, "full_attention,full_attention", 10000), 1);
}

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
