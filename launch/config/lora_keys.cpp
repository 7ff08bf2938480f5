#include "launch/config/lora_keys.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/core/error.h"
#include "launch/config/key_makers.h"
#include "launch/config/quantisation.h"

namespace recollect {

namespace {

constexpr int64_t kMostRank = 65536;

bool has_no_adapters(const Config& c) { return c.lora.rank == 0; }
bool has_whole_base(const Config& c) { return c.lora.base == WeightFormat::kWhole; }

// What PEFT trains whole beside the adapters of such a model. It names no head of ModernBERT that answers questions.
std::vector<std::string> head_modules(Task task, std::string_view type) {
  switch (task) {
    case Task::kSequenceClassification:
    case Task::kMultipleChoice:
    case Task::kTokenClassification:
      return {"classifier"};
    case Task::kQuestionAnswering:
      return {type == "modernbert" ? "classifier" : "qa_outputs"};
    default:
      return {};
  }
}

using PatternKey = NumbersByPattern Config::Lora::*;

std::string read_patterns(const YamlNode& node, NumbersByPattern& out) {
  if (node.kind != YamlNode::Kind::kMapping)
    return fmt::format("expected numbers by name such as {{c_attn: 4}}, found {}", describe(node));
  NumbersByPattern numbers;
  for (const auto& [key, value] : node.entries) {
    double number = 0;
    if (const std::string wrong = read_value(value, above(0), number); !wrong.empty())
      return fmt::format("'{}': {}", key.text, wrong);
    numbers.emplace_back(key.text, number);
  }
  out = std::move(numbers);
  return "";
}

std::string print_patterns(const NumbersByPattern& numbers) {
  std::vector<std::string> entries;
  for (const auto& [pattern, number] : numbers)
    entries.push_back(fmt::format("{}: {}", print_text(pattern), print_value(number, {})));
  return fmt::format("{{{}}}", fmt::join(entries, ", "));
}

ConfigKey pattern_key(const char* name, PatternKey member, const char* help) {
  ConfigKey key;
  key.section = "lora";
  key.name = name;
  key.type = "patterns";
  key.help = help;
  key.read = [member](Config& config, const YamlNode& node) {
    return read_patterns(node, config.lora.*member);
  };
  key.print = [member](const Config& config) { return print_patterns(config.lora.*member); };
  return key;
}

std::optional<int64_t> layer_number(const std::string& text) {
  int64_t layer = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), layer);
  if (error != std::errc() || end != text.data() + text.size() || layer < 0) return std::nullopt;
  return layer;
}

void check_layers(const Config& config, std::vector<Finding>& found) {
  const Config::Lora& lora = config.lora;
  const int64_t layers = config.model.facts().layers.value;
  for (const std::string& text : lora.layers_to_transform)
    if (const std::optional<int64_t> layer = layer_number(text); !layer || *layer >= layers)
      found.push_back(
          {{"lora.layers_to_transform", "model." + config.model.facts().layers.key},
           fmt::format("lora.layers_to_transform names layer {}, and those of the model are 0 to {}", text,
                       layers - 1)});
  if (!lora.layers_pattern.empty() && lora.layers_to_transform.empty())
    found.push_back({{"lora.layers_pattern", "lora.layers_to_transform"},
                     "lora.layers_pattern has no effect without lora.layers_to_transform, which says which "
                     "layers are meant"});
}

void check_patterns(const Config& config, std::vector<Finding>& found) {
  const Config::Lora& lora = config.lora;
  const auto check = [&](const std::string& key, const std::string& text) {
    try {
      const ModulePattern pattern(key, text);
    } catch (const Error& error) {
      found.push_back({{key}, fmt::format("{}; {}", error.what(), error.hint())});
    }
  };
  for (const auto& [name, list] :
       {std::pair("targets", &lora.targets), std::pair("exclude_modules", &lora.exclude_modules)}) {
    const std::string key = fmt::format("lora.{}", name);
    const auto pattern = std::find_if(list->begin(), list->end(), is_pattern);
    if (pattern == list->end()) continue;
    check(key, *pattern);
    if (list->size() > 1)
      found.push_back(
          {{key},
           fmt::format("{}: '{}' is a regular expression, which stands alone: write one for all that "
                       "is meant, as a text and not in a list",
                       key, *pattern)});
    if (key == "lora.targets" && !lora.layers_to_transform.empty())
      found.push_back(
          {{"lora.layers_to_transform", key},
           fmt::format("lora.layers_to_transform does not go with the regular expression '{}' in "
                       "lora.targets: say in it which layers are meant, such as '.*\\.[0-3]\\..*'",
                       *pattern)});
  }
  for (const std::string& text : lora.layers_pattern) check("lora.layers_pattern", text);
  for (const auto& [key, numbers] : {std::pair("lora.rank_pattern", &lora.rank_pattern),
                                     std::pair("lora.alpha_pattern", &lora.alpha_pattern)})
    for (const auto& [text, number] : *numbers) {
      check(key, text);
      if (numbers == &lora.rank_pattern && (number != std::floor(number) || number > kMostRank))
        found.push_back({{key},
                         fmt::format("{}: '{}': {} is no rank; it is a whole number from 1 to {}", key, text,
                                     number, kMostRank)});
    }
}

}  // namespace

void add_lora_keys(std::vector<ConfigKey>& keys) {
  using S = Config::Lora;
  const Adder<S> add(keys, "lora", &Config::lora);
  add("rank", &S::rank, between(0, kMostRank),
      "of the adapters; 0: there are none, and all of the model is trained");
  add("alpha", &S::alpha, above(0), "what an adapter adds is times alpha / rank");
  add("dropout", &S::dropout, fraction(), "of what an adapter reads");
  add("targets", &S::targets, any(),
      "linear modules that get adapters, by the ends of their names in files, or all-linear; a list; or one "
      "regular expression of whole names; not given: those that PEFT takes of the model's family");
  add("exclude_modules", &S::exclude_modules, any(),
      "of these modules some that get none, by the ends of their names or as one pattern; a list");
  add("layers_to_transform", &S::layers_to_transform, ValueRange{.numbers = true},
      "layers whose modules get adapters, a list of numbers from 0 on; not given: all layers");
  add("layers_pattern", &S::layers_pattern, any(),
      "with layers_to_transform: what stands before a layer's number in names, such as layers; not given: "
      "anything");
  keys.push_back(
      pattern_key("rank_pattern", &S::rank_pattern,
                  "another rank of some modules: {end of a name, or a regular expression of it: rank}; "
                  "the first that matches"));
  keys.push_back(pattern_key("alpha_pattern", &S::alpha_pattern, "another alpha, likewise"));
  add("rslora", &S::rslora, any(), "times alpha / sqrt(rank) instead");
  add("modules_to_save", &S::modules_to_save, any(),
      "modules that are trained whole and saved with the adapters; a list; not given: the head of a task "
      "with labels");
  add("path", &S::path, any(), kBeginning,
      "folder with adapter_config.json and adapter_model.safetensors of PEFT's to start from");
  add("merge", &S::merge, any(), kNothing,
      "with the adapters save the model that they make, in output_dir/merged");
  add("base", &S::base, any(),
      "how frozen weights of linear modules are stored: in training.precision, or as bitsandbytes has them "
      "in 4 "
      "or 8 bits, "
      "of which products read numbers in training.precision; not given: as model.pretrained has them");
  add("double_quant", &S::double_quant, any(),
      "of nf4 and fp4: the sizes of blocks are quantised, too, to 8 bits");
  add("base_skip_modules", &S::base_skip_modules, any(),
      "linear modules that stay in training.precision, by the ends or the beginnings of their names; a list");
  add("save_base", &S::save_base, any(), kNothing,
      "with the adapters save the base as it is stored, in output_dir/quantised_base");
}

std::vector<Finding> complete_lora(Config& config, Config& otherwise) {
  Config::Lora& lora = config.lora;
  std::vector<Finding> found;
  if (!lora.path.empty()) merge_adapter_config(config, otherwise, found);
  complete_quantisation(config, otherwise, found);
  if (lora.rank == 0) return found;
  const auto derive = [&](const char* key, std::vector<std::string> Config::Lora::*member,
                          const std::vector<std::string>& made, const char* from) {
    otherwise.lora.*member = made;
    if (config.origins.contains(key) || config.derived.contains(key)) return;
    lora.*member = made;
    config.derived[key] = from;
  };
  derive("lora.targets", &Config::Lora::targets, config.model.family().adapted, "model.type");
  derive("lora.modules_to_save", &Config::Lora::modules_to_save,
         head_modules(config.task, config.model.family().type), "task");
  return found;
}

void check_lora(const Config& config, std::vector<Finding>& found) {
  const Config::Lora& lora = config.lora;
  if (lora.rank == 0) return;
  if (lora.targets.empty())
    found.push_back({{"lora.targets", "lora.rank"}, "lora.targets is empty: no module gets an adapter"});
  check_layers(config, found);
  check_patterns(config, found);
  if (!has_whole_base(config) && config.training.fp8)
    found.push_back(
        {{"training.fp8", "lora.base"},
         fmt::format(
             "training.fp8 multiplies codes of 8 bits, and weights of lora.base {} are made numbers of "
             "training.precision for each product: leave one of them out",
             name_of(lora.base))});
  if (lora.save_base && config.model.pretrained.empty())
    found.push_back({{"lora.save_base", "model.pretrained"},
                     "lora.save_base quantises the files in model.pretrained, which names none"});
  for (const std::string& entry : lora.base_skip_modules)
    if (is_pattern(entry))
      found.push_back(
          {{"lora.base_skip_modules"},
           fmt::format("lora.base_skip_modules: '{}' is a regular expression, and names are meant: the end "
                       "of a module's name, or its beginning up to a dot",
                       entry)});
  const bool saves = config.checkpoint.save_model || config.checkpoint.save_best_model;
  // Of a snapshot's configuration it may be left empty, and nothing is saved by that.
  if (saves && !config.origins.contains("model.pretrained"))
    found.push_back({{"checkpoint.save_model", "checkpoint.save_best_model", "lora.rank"},
                     "checkpoint.save_model saves adapters alone, and nobody has the model that they are of: "
                     "it is drawn; name "
                     "one in model.pretrained"});
  if (lora.merge && config.model.pretrained.empty())
    found.push_back({{"lora.merge", "model.pretrained"},
                     "lora.merge makes a model of the files in model.pretrained, which names none"});
}

std::vector<InertRule> inert_lora_rules() {
  return {
      {{"lora.alpha", "lora.dropout", "lora.targets", "lora.rslora", "lora.modules_to_save", "lora.merge",
        "lora.exclude_modules", "lora.layers_to_transform", "lora.layers_pattern", "lora.rank_pattern",
        "lora.alpha_pattern", "lora.base", "lora.double_quant", "lora.base_skip_modules", "lora.save_base"},
       {"lora.rank"},
       has_no_adapters,
       "there are no adapters"},
      {{"lora.rank", "lora.alpha", "lora.targets", "lora.rslora", "lora.modules_to_save",
        "lora.exclude_modules", "lora.layers_to_transform", "lora.layers_pattern", "lora.rank_pattern",
        "lora.alpha_pattern"},
       {"training.max_steps", "lora.path"},
       [](const Config& c) { return c.training.max_steps == 0 && c.lora.path.empty(); },
       "new adapters add nothing"},
      {{"lora.dropout"},
       {"training.max_steps"},
       [](const Config& c) { return c.training.max_steps == 0; },
       "nothing is trained"},
      {{"lora.double_quant", "lora.base_skip_modules", "lora.save_base"},
       {"lora.base"},
       has_whole_base,
       "frozen weights are stored in training.precision"},
      {{"lora.double_quant"},
       {"lora.base"},
       [](const Config& c) { return c.lora.base == WeightFormat::kInt8; },
       "a row of int8 has one size"},
      {{"lora.merge", "lora.save_base"},
       {"checkpoint.save_model"},
       [](const Config& c) { return !c.checkpoint.save_model; },
       "no model is saved"},
  };
}

LoraSettings lora_settings(const Config& config) {
  const Config::Lora& lora = config.lora;
  const auto from = config.derived.find("lora.targets");
  LoraSettings settings{.rank = lora.rank,
                        .alpha = lora.alpha,
                        .dropout = lora.dropout,
                        .rank_stabilized = lora.rslora,
                        .targets = lora.targets,
                        .exclude = lora.exclude_modules,
                        .layers_pattern = lora.layers_pattern,
                        .modules_to_save = lora.modules_to_save,
                        .rank_pattern = lora.rank_pattern,
                        .alpha_pattern = lora.alpha_pattern,
                        .base = {lora.base, lora.double_quant, lora.base_skip_modules,
                                 config.derived.contains("lora.base_skip_modules")},
                        .from_file = from != config.derived.end() && from->second == "lora.path"};
  for (const std::string& text : lora.layers_to_transform)
    settings.layers.push_back(layer_number(text).value_or(-1));
  return settings;
}

bool holds_adapters(const std::string& folder) {
  std::error_code error;
  return std::filesystem::exists(folder + kAdapterFile, error) &&
         std::filesystem::exists(folder + kAdapterConfig, error);
}

}  // namespace recollect
