// `recollect config`: what a run's values are and where they come from, and the keys as a JSON Schema and as
// a page. The schema is held to the reader: both have the same opinion of every document here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "engine/io/yaml_document.h"
#include "launch/config/foreign_keys.h"
#include "launch/config/schema.h"
#include "launch/program/estimate.h"
#include "tests/launch/config_test_support.h"
#include "tests/launch/process.h"
#include "tests/launch/python.h"

namespace recollect::test::config_command_test {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const std::string kSource = RECOLLECT_SOURCE_DIR;

std::string one_blank_each(std::string text) {
  const auto both_blank = [](char a, char b) { return a == ' ' && b == ' '; };
  text.erase(std::unique(text.begin(), text.end(), both_blank), text.end());
  return text;
}

// The line of a key in the output of `config show`, from its name on, with single blanks.
std::string line_of(const std::string& shown, const std::string& key) {
  std::istringstream lines(shown);
  for (std::string line; std::getline(lines, line);) {
    line = one_blank_each(line);
    if (line.starts_with(' ')) line.erase(0, 1);
    if (line.starts_with(key + ":")) return line;
  }
  return "no line " + key + " in\n" + shown;
}

TEST(ConfigShow, SaysWhereEachValueComesFrom) {
  const Workplace place;
  place.folder().write("model.json", R"({"model_type": "gpt2", "n_head": 2})");
  place.folder().write("a.yaml",
                       "model: {config: model.json, n_embd: 32}\ntraining:\n  global_batch_size: 12\n"
                       "data: {format: random, sequence_length: 16}\n");
  const Finished done =
      place.recollect({"config", "show", "a.yaml", "training.seed=9", "parallelism.tp=2", "--ranks", "4"});
  ASSERT_EQ(done.status, 0) << done.err;
  for (const auto& [key, line] : std::map<std::string, std::string>{
           {"n_embd", "n_embd: 32 # a.yaml:1:37"},
           {"n_layer", "n_layer: 12 # default"},
           {"n_head", "n_head: 2 # model.json"},
           {"n_inner", "n_inner: 128 # derived from 4 x model.n_embd"},
           {"tensor_parallel_size", "tensor_parallel_size: 2 # command line: parallelism.tp=2"},
           {"data_parallel_size",
            "data_parallel_size: 2 # derived from 4 ranks / parallelism.tensor_parallel_size"},
           {"global_batch_size", "global_batch_size: 12 # a.yaml:3:22"},
           {"micro_batch_size",
            "micro_batch_size: 6 # derived from training.global_batch_size / "
            "(training.gradient_accumulation_steps x parallelism.data_parallel_size)"},
           {"gradient_accumulation_steps",
            "gradient_accumulation_steps: 1 # derived from training.micro_batch_size, which is not given"},
           {"sequence_length", "sequence_length: 16 # a.yaml:4:41"},
           {"output_dir", "output_dir: output # default"}})
    EXPECT_EQ(line_of(done.out, key), line);
  // The two seeds: one is given, the other follows it.
  const std::string close = one_blank_each(done.out);
  for (const char* line :
       {" seed: 9 # command line: training.seed=9\n", " seed: 9 # derived from training.seed\n"})
    EXPECT_NE(close.find(line), std::string::npos) << done.out;
}

TEST(ConfigShow, ReadsBackAsTheSameConfiguration) {
  for (const char* name : {"configs/gpt2-tiny.yaml", "configs/gpt2-124m.yaml", "configs/bert-large.yaml",
                           "configs/llama-160m.yaml", "examples/oslo/oslo.yaml"}) {
    Config config = read_config(kSource + "/" + name, {"activation_checkpointing.mode=selective",
                                                       "activation_checkpointing.recompute=[mlp, norm]"});
    resolve_planned_world(config);
    const Config again = read_config_text("again.yaml", dump_with_origins(config));
    EXPECT_EQ(dump_resolved(again), dump_resolved(config)) << name;
  }
}

TEST(ConfigShow, AnOriginCannotBreakItsLine) {
  const Config config = read_config_text("c.yaml\nb: c", kLeast + "output_dir: a\n");
  EXPECT_EQ(read_config_text("again.yaml", dump_with_origins(config)).output_dir, "a");
}

TEST(ConfigShow, RefusesWhatTrainRefuses) {
  const Workplace place;
  for (const Words& words :
       {Words{"show", "c.yaml", "training.max_step=1"}, Words{"show", "c.yaml", "parallelism.tp=3"},
        Words{"show", "c.yaml", "--ranks", "0"}, Words{"show", "c.yaml", "--ranks", "-1"},
        Words{"show", "c.yaml", "--ranks", "3"}, Words{"show"}, Words{"sing"}, Words{"schema", "c.yaml"},
        Words{}}) {
    const Finished done = place.recollect(Words{"config"} + words);
    EXPECT_EQ(done.status, 2) << done.out;
    EXPECT_EQ(done.out, "");
    EXPECT_NE(done.err, "");
  }
}

// The object of a section in the schema.
json section_of(const json& schema, const std::string& section) {
  json found = schema;
  std::istringstream path(section);
  for (std::string leaf; std::getline(path, leaf, '.');) found = found.at("properties").at(leaf);
  return found;
}

TEST(ConfigSchema, HoldsEveryNameOfTheTableAndNoOther) {
  const KeyTable table;
  const json schema = config_schema(table);
  EXPECT_EQ(schema.at("$schema"), "http://json-schema.org/draft-07/schema#");
  std::map<std::string, std::set<std::string>> names;  // by section
  for (const std::string_view section : table.sections()) {
    const std::size_t dot = section.rfind('.');
    const bool inner = dot != std::string_view::npos;
    names[std::string(inner ? section.substr(0, dot) : "")].emplace(section.substr(inner ? dot + 1 : 0));
  }
  for (const ConfigKey& key : table.keys()) {
    const json properties = section_of(schema, key.section).at("properties");
    names[key.section].insert(key.name);
    names[key.section].insert(key.aliases.begin(), key.aliases.end());
    EXPECT_EQ(properties.at(key.name).at("description"), key.help);
    EXPECT_TRUE(properties.at(key.name).contains("default")) << key.path();
  }
  for (const ModelFamily& other : model_families()) {  // whose keys are admitted beside those of the table's
    for (const ModelSection& section : other.sections)
      names["model"].emplace(section.path.substr(section.path.find('.') + 1));
    for (const ConfigKey& key : KeyTable::of(other).keys()) {
      if (!key.section.starts_with("model")) continue;
      names[key.section].insert(key.name);
      if (key.section != "model") names[key.section].insert(key.aliases.begin(), key.aliases.end());
    }
  }
  for (const auto& [section, expected] : names) {
    const json found = section_of(schema, section);
    std::set<std::string> there;
    for (const auto& [name, property] : found.at("properties").items()) there.insert(name);
    EXPECT_EQ(there, expected) << section;
    EXPECT_EQ(found.at("additionalProperties"), false) << section;
    EXPECT_FALSE(KeyTable::section_help(section).empty()) << section << " needs a sentence in key_list.cpp";
  }
}

TEST(ConfigSchema, TypesRangesAndDefaultsAreTheTables) {
  const json schema = config_schema(KeyTable{});
  const auto at = [&](const char* section, const char* name) {
    return section_of(schema, section).at("properties").at(name);
  };
  EXPECT_EQ(at("training", "max_steps").at("type"), "integer");
  EXPECT_EQ(at("training", "max_steps").at("minimum"), 0);
  EXPECT_EQ(at("training", "max_steps").at("maximum"), 2147483647);
  EXPECT_EQ(at("training", "max_steps").at("default"), 100);
  EXPECT_EQ(at("model", "layer_norm_epsilon").at("exclusiveMinimum"), 0);
  EXPECT_EQ(at("model", "resid_pdrop").at("exclusiveMaximum"), 1);
  EXPECT_EQ(at("model", "resid_pdrop").at("default"), 0.1);
  EXPECT_EQ(at("model", "tie_word_embeddings").at("default"), true);
  EXPECT_EQ(at("training", "precision").at("enum"), json({"fp32", "bf16", "fp64", "fp16"}));
  EXPECT_EQ(at("data", "path").at("default"), json::array());
  EXPECT_EQ(at("logging", "progress").at("default"), "auto");
  EXPECT_EQ(at("device", "memory_limit").at("default"), 0);
  EXPECT_EQ(at("activation_checkpointing.disk_checkpointing", "path").at("type"), "string");
  EXPECT_EQ(at("activation_checkpointing", "recompute").at("anyOf").at(0).at("enum").size(), 5u);
  // Megatron's "selective" means something else than ours.
  const json modes = at("activation_checkpointing", "mode").at("enum"),
             foreign = at("activation_checkpointing", "recompute_granularity").at("enum");
  EXPECT_EQ(std::count(modes.begin(), modes.end(), "selective"), 1);
  EXPECT_EQ(std::count(foreign.begin(), foreign.end(), "selective"), 0);
  EXPECT_EQ(std::count(foreign.begin(), foreign.end(), "full"), 1);
}

// The number that the text is as a whole, by YAML 1.2.
template <typename Number>
std::optional<Number> decimal(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const bool bare = text.find_first_not_of("+-.eE0123456789") == std::string_view::npos;  // no inf, no nan
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return bare && error == std::errc() && end == text.data() + text.size() ? std::optional(number)
                                                                          : std::nullopt;
}

// A document as an editor takes it: plain scalars by the rules of YAML 1.2.
json as_editor(const YamlNode& node) {
  json value;
  switch (node.kind) {
    case YamlNode::Kind::kSequence:
      value = json::array();
      for (const YamlNode& item : node.items) value.push_back(as_editor(item));
      return value;
    case YamlNode::Kind::kMapping:
      value = json::object();
      for (const auto& [name, entry] : node.entries) value[name.text] = as_editor(entry);
      return value;
    case YamlNode::Kind::kScalar:
      if (!node.plain) return node.text;
      if (node.text == "true" || node.text == "false") return node.text == "true";
      if (const auto number = decimal<int64_t>(node.text)) return *number;
      if (const auto number = decimal<double>(node.text)) return *number;
      return node.text;
    default:
      return nullptr;
  }
}

struct Document {
  std::string name, text;
  bool good;
};

std::vector<Document> files_of_the_repository() {
  std::vector<Document> files;
  for (const char* folder : {"/configs", "/examples"})
    for (const auto& entry : fs::recursive_directory_iterator(kSource + folder))
      if (entry.path().extension() == ".yaml" && entry.path().filename() != "kubernetes.yaml")
        files.push_back({entry.path(), test::TemporaryFolder::read(entry.path()), true});
  return files;
}

std::vector<Document> documents() {
  std::vector<Document> all = files_of_the_repository();
  EXPECT_GE(all.size(), 3u);
  const auto add = [&](bool good, const std::vector<std::string>& bodies) {
    for (const std::string& body : bodies) all.push_back({body, kLeast + body + "\n", good});
  };
  const std::string ac = "activation_checkpointing: ", disk = "disk_checkpointing: ";
  add(true,
      {"model: {hidden_size: 96, num_attention_heads: 6, n_inner: 0, layer_norm_epsilon: 1e-6}",
       "parallelism: {tensor_model_parallel_size: 2, communicator: mpi}", "device: {memory_limit: 4GiB}",
       "device: {memory_limit: 1.5GiB}", "device: {memory_limit: 512 MiB}", "device: {memory_limit: 1048576}",
       "training: {train_iters: 7}", "optimizer: {lr: 1, clip_grad: 0, beta1: .5}",
       "logging: {progress: off}",
       "optimizer: {groups: [{match: h.0.*, frozen: true}, {match: [wte.weight, '*.bias'], lr: 1e-3}]}",
       "optimizer: {name: adafactor_hf, relative_step: warmup}", "scheduler: {name: step, step_size: 3}",
       ac + "{recompute_granularity: full}", ac + "{mode: selective, recompute: mlp}",
       ac + "{mode: selective, recompute: [mlp, norm]}", ac + "{" + disk + "{path: ., limit: 1GiB}}",
       "output_dir: \"7\"", "debug: {dump_gradients: g, dump_step: 3}"});
  add(false, {"traning: {}",
              "optimizer: {groups: {match: h.0.*, frozen: true}}",
              "optimizer: {groups: [{frozen: true}]}",
              "optimizer: {groups: [{match: [], frozen: true}]}",
              "optimizer: {groups: [{match: a, frozen: 1}]}",
              "optimizer: {groups: [{match: a, weight_decay: -1}]}",
              "optimizer: {groups: [{match: a, frozen: true, rate: 1}]}",
              "scheduler: {name: steps}",
              "model: {n_layerz: 2}",
              "model: {n_layer: two}",
              "model: {n_layer: 0}",
              "model: {n_layer: 2.5}",
              "model: {n_layer: [2]}",
              "model: {n_layer: \"2\"}",
              "model: {n_layer: true}",
              "model: {n_layer: }",
              "model: {n_layer: 2, num_hidden_layers: 2}",
              "model: {type: rwkv}",
              "model: {resid_pdrop: 1}",
              "model: {layer_norm_epsilon: 0}",
              "model: {tie_word_embeddings: 1}",
              "model: {tie_word_embeddings: \"true\"}",
              "model: []",
              "model: gpt2",
              "model: ",
              "device: {memory_limit: 4GB}",
              "device: {memory_limit: -1}",

              "device: {memory_limit: 1.5.5GiB}",
              "optimizer: {lr: 1, learning_rate: 1}",
              "optimizer: {beta1: 1}",
              "optimizer: {lr: fast}",
              "optimizer: {lr: -1}",
              "logging: {progress: loud}",
              "logging: {progress: [off]}",
              "training: {precision: 32}",
              "training: {data: {}}",
              "output_dir: \"\"",
              "output_dir: [a]",
              "max_steps: 3",
              ac + "{recompute_granularity: selective}",
              ac + "{profile: true}",
              ac + "{mode: selective, recompute: [mlps]}",
              ac + "{mode: selective, recompute: {mlp: true}}",
              ac + "{" + disk + "true}",
              ac + "{" + disk + "{paths: .}}",
              ac + "{" + disk + "{path: ., limit: lots}}",
              "evaluation: {path: [\"\"], every_steps: 1, format: text}"});
  return all;
}

// Whether the reader accepts each key by itself; what keys are together is not the schema's business.
std::string reader_says(const Document& document) {
  try {
    read_config_text("c.yaml", document.text, {"model.pretrained="}, {.cuda = true});  // no such folder here
    return "accepted";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(ConfigSchema, TheReaderIsOfTheExpectedOpinion) {
  for (const Document& document : documents())
    EXPECT_EQ(reader_says(document) == "accepted", document.good) << document.name << "\n"
                                                                  << reader_says(document);
}

TEST(ConfigSchema, AcceptsAndRefusesWhatTheReaderDoes) {
  const std::string python = python_with("jsonschema");
  if (python.empty()) GTEST_SKIP() << "no python3 here has jsonschema";
  const Workplace place;
  const Finished schema = place.recollect({"config", "schema"});
  ASSERT_EQ(schema.status, 0) << schema.err;
  place.folder().write("schema.json", schema.out);
  const std::vector<Document> all = documents();
  json values = json::array();
  for (const Document& document : all) {
    Problems problems;
    values.push_back(as_editor(parse_document("c.yaml", document.text, problems)));
    ASSERT_TRUE(problems.empty()) << problems.text();
  }
  place.folder().write("documents.json", values.dump());
  const Finished checked =
      Process({python, kSource + "/tests/launch/check_schema.py", "schema.json", "documents.json"},
              place.folder().path())
          .wait(Workplace::kBound);
  ASSERT_EQ(checked.status, 0) << checked.err;
  std::istringstream verdicts(checked.out);
  std::string verdict;
  for (const Document& document : all) {
    ASSERT_TRUE(std::getline(verdicts, verdict));
    EXPECT_EQ(verdict == "accepted", document.good) << document.name << "\n" << verdict;
  }
}

TEST(ConfigReference, ThePageIsCurrent) {
  const Workplace place;
  const Finished printed = place.recollect({"config", "reference"});
  ASSERT_EQ(printed.status, 0) << printed.err;
  EXPECT_EQ(printed.out, test::TemporaryFolder::read(kSource + "/docs/configuration.md"))
      << "write it anew: recollect config reference > docs/configuration.md";
}

TEST(ConfigReference, HoldsEveryKeyAndAdvice) {
  const KeyTable table;
  const std::string page = config_reference(table);
  for (const ConfigKey& key : table.keys()) {
    EXPECT_NE(page.find("| `" + key.name + "`"), std::string::npos) << key.path();
    for (const std::string& alias : key.aliases)
      EXPECT_NE(page.find("`" + alias + "`"), std::string::npos) << alias;
  }
  const Config::Scheduler unsaid = table.defaults().scheduler;
  EXPECT_TRUE(unsaid.name == SchedulerName::kConstant && unsaid.warmup_steps == 0 &&
              unsaid.warmup_ratio == 0);
  EXPECT_NE(page.find("says nothing of it trains with a constant one, without warm-up."), std::string::npos);
  for (const ForeignKey& key : foreign_keys())
    EXPECT_NE(page.find("| `" + std::string(key.name) + "` | "), std::string::npos) << key.name;
  for (const ForeignValue& value : foreign_values())
    EXPECT_NE(page.find(fmt::format("| `{}` | `{}` | ", value.key, value.value)), std::string::npos)
        << value.key;
}

}  // namespace
}  // namespace recollect::test::config_command_test
