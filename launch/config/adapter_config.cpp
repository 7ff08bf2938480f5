// adapter_config.json, in which PEFT says what adapters are: read as values of the section `lora`, which has PEFT's names
// as aliases, and written of a configuration.
#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "engine/core/printable.h"
#include "engine/io/file_text.h"
#include "engine/io/json.h"
#include "engine/io/yaml_document.h"
#include "launch/config/lora_keys.h"

namespace recollect {

namespace {

using json = nlohmann::ordered_json;  // the first pattern that matches has the say

// Of LoraConfig, the keys that are ours too.
constexpr std::array kShared = {"r",
                                "lora_alpha",
                                "lora_dropout",
                                "target_modules",
                                "use_rslora",
                                "modules_to_save",
                                "exclude_modules",
                                "layers_to_transform",
                                "layers_pattern",
                                "rank_pattern",
                                "alpha_pattern"};
// Those that change what is computed, and must be absent, null, false or empty.
constexpr std::array kUnsupported = {
    "use_dora",    "use_qalora",    "lora_bias",        "layer_replication",       "target_parameters",
    "use_bdlora",  "arrow_config",  "megatron_config",  "trainable_token_indices", "alora_invocation_tokens",
    "kasa_config", "velora_config", "monteclora_config"};

bool asks_for_nothing(const json& value) {
  return value.is_null() || value == json(false) || (value.is_structured() && value.empty());
}

// What of the file nothing here computes.
std::vector<std::string> unsupported_in(const json& document) {
  std::vector<std::string> wrong;
  const auto type = document.find("peft_type");
  if (type == document.end() || *type != "LORA") wrong.emplace_back("peft_type is not LORA");
  if (document.contains("bias") && document["bias"] != "none") wrong.emplace_back("bias is not none");
  for (const char* key : kUnsupported)
    if (document.contains(key) && !asks_for_nothing(document[key]))
      wrong.push_back(fmt::format("{} is not supported", key));
  const auto start = document.find("init_lora_weights");
  if (start != document.end() && start->is_string() && *start != "gaussian" && *start != "orthogonal")
    wrong.push_back(fmt::format("init_lora_weights {} changes the model that the adapters are of",
                                printable(start->get<std::string>())));
  return wrong;
}

// As a key of ours reads it. PEFT trains "score" where a model has it in place of "classifier", and names both.
json shared_value_of(const json& document, const std::string& name) {
  json value = document.contains(name) ? document[name] : json(nullptr);
  for (const char* list : {"modules_to_save", "exclude_modules", "layers_to_transform", "layers_pattern"})
    if (name == list && value.is_null()) return json::array();
  if (name.ends_with("_pattern") && value.is_null()) return json::object();
  if (name == "modules_to_save" && value.is_array() && value.size() > 1)
    value.erase(std::remove(value.begin(), value.end(), "score"), value.end());
  return value;
}

// In any order. What all-linear stands for the adapters' own tensors show.
bool same_modules(std::vector<std::string> a, std::vector<std::string> b) {
  for (std::vector<std::string>* list : {&a, &b}) {
    std::sort(list->begin(), list->end());
    if (std::binary_search(list->begin(), list->end(), kAllLinear)) return true;
  }
  return a == b;
}

bool same_modules(const std::string& name, const Config::Lora& a, const Config::Lora& b) {
  using List = std::vector<std::string> Config::Lora::*;
  for (const auto& [list, member] : {std::pair<const char*, List>("target_modules", &Config::Lora::targets),
                                     {"modules_to_save", &Config::Lora::modules_to_save},
                                     {"exclude_modules", &Config::Lora::exclude_modules},
                                     {"layers_to_transform", &Config::Lora::layers_to_transform}})
    if (name == list) return same_modules(a.*member, b.*member);
  return false;
}

class AdapterConfig {
 public:
  AdapterConfig(Config& config, Config& otherwise, std::vector<Finding>& found)
      : config_(config), otherwise_(otherwise), found_(found), path_(config.lora.path + kAdapterConfig) {}

  void merge() {
    std::string text;
    if (const std::string wrong = read_file_text(path_, kMaxDocumentBytes, text); !wrong.empty())
      return say("lora.path", wrong);
    const json document = json::parse(text, nullptr, false);
    if (!document.is_object()) return say("lora.path", "not a JSON object");
    for (const std::string& wrong : unsupported_in(document)) say("lora.path", wrong);
    for (const char* name : kShared) merge_key(name, shared_value_of(document, name));
  }

 private:
  void say(const std::string& key, const std::string& what) {
    found_.push_back({{key, "lora.path"}, fmt::format("{}: {}", printable(path_), what)});
  }

  void merge_key(const std::string& name, const json& value) {
    const ConfigKey& key = *KeyTable::of(config_.model.family()).find("lora", name);
    const bool given = config_.origins.contains(key.path());
    if (value.is_null()) return;
    Problems none;
    const YamlNode node = parse_document(path_, value.dump(), none);
    Config said = otherwise_;
    if (const std::string wrong = key.read(said, node); !wrong.empty())
      return say(key.path(), fmt::format("{}: {}", name, wrong));
    key.read(otherwise_, node);
    if (!given) {
      key.read(config_, node);
      config_.derived[key.path()] = "lora.path";
    } else if (name != "lora_dropout" && key.print(said) != key.print(config_) &&
               !same_modules(name, said.lora, config_.lora)) {
      say(key.path(),
          fmt::format("{} is {}, and {} is {}", name, key.print(said), key.path(), key.print(config_)));
    }
  }

  Config& config_;
  Config& otherwise_;
  std::vector<Finding>& found_;
  std::string path_;
};

json task_type(Task task) {
  switch (task) {
    case Task::kCausalLm:
      return "CAUSAL_LM";
    case Task::kSequenceClassification:
      return "SEQ_CLS";
    case Task::kTokenClassification:
      return "TOKEN_CLS";
    case Task::kQuestionAnswering:
      return "QUESTION_ANS";
    default:
      return nullptr;
  }
}

}  // namespace

void merge_adapter_config(Config& config, Config& otherwise, std::vector<Finding>& found) {
  AdapterConfig(config, otherwise, found).merge();
}

namespace {

std::vector<std::string> adapted_modules(const Model& model) {
  std::vector<std::string> modules;
  for (const Parameter& p : model.parameters)
    if (p.adapter && p.name.ends_with(".lora_A.weight"))
      modules.emplace_back(module_of(module_of(model.files.in_file(p.name))));
  return modules;
}

// Whether PEFT would try to adapt more by the pattern than linear modules: what holds modules, such as a layer, or a norm.
bool matches_more(const std::string& pattern, const Model& model) {
  const ModulePattern compiled("lora.targets", pattern);
  std::set<std::string> linear;
  for (const std::string& module : linear_modules(model.parameters))
    linear.emplace(module_of(model.files.in_file(module + ".weight")));
  for (const Parameter& p : model.parameters) {
    if (p.adapter) continue;
    for (const Parameter::FileTensor& tensor : p.file_tensors()) {
      const std::string name = model.files.in_file(tensor.name);
      for (std::size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1)) {
        const std::string module = name.substr(0, dot);
        if (!linear.contains(module) && compiled.matches_whole(module)) return true;
      }
    }
  }
  return false;
}

// Null where there is nothing; a pattern as a text, of which PEFT knows it.
json modules_json(const std::vector<std::string>& list) {
  if (list.empty()) return nullptr;
  return list.size() == 1 && is_pattern(list.front()) ? json(list.front()) : json(list);
}

json number_json(double number) {
  const bool whole = number == static_cast<double>(static_cast<int64_t>(number));
  return whole ? json(static_cast<int64_t>(number)) : json(number);
}

nlohmann::ordered_json numbers_json(const NumbersByPattern& numbers) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [pattern, number] : numbers) object[pattern] = number_json(number);
  return object;
}

}  // namespace

std::string adapter_description(const Config& config, const Model& model) {
  const Config::Lora& lora = config.lora;
  // By their whole names where PEFT may see others in all-linear or in a pattern.
  const std::vector<std::string> modules = adapted_modules(model);
  const bool by_name = std::any_of(lora.targets.begin(), lora.targets.end(), [&](const std::string& target) {
    return target == kAllLinear || (is_pattern(target) && matches_more(target, model));
  });
  std::vector<int64_t> layers;
  if (!by_name) layers = lora_settings(config).layers;
  const bool transposed = std::any_of(model.parameters.begin(), model.parameters.end(),
                                      [](const Parameter& p) { return p.linear && p.transposed_in_file; });
  const nlohmann::ordered_json document = {
      {"peft_type", "LORA"},
      {"task_type", task_type(config.task)},
      {"base_model_name_or_path", config.model.pretrained},
      {"r", lora.rank},
      {"lora_alpha", number_json(lora.alpha)},
      {"lora_dropout", lora.dropout},
      {"target_modules", by_name ? json(modules) : modules_json(lora.targets)},
      {"exclude_modules", by_name ? json(nullptr) : modules_json(lora.exclude_modules)},
      {"layers_to_transform", layers.empty() ? json(nullptr) : json(layers)},
      {"layers_pattern",
       layers.empty() || lora.layers_pattern.empty() ? json(nullptr) : json(lora.layers_pattern)},
      {"rank_pattern", numbers_json(lora.rank_pattern)},
      {"alpha_pattern", numbers_json(lora.alpha_pattern)},
      {"modules_to_save", lora.modules_to_save.empty() ? json(nullptr) : json(lora.modules_to_save)},
      {"use_rslora", lora.rslora},
      {"bias", "none"},
      {"fan_in_fan_out", transposed},
      {"inference_mode", true},
      {"init_lora_weights", true},
  };
  return document.dump(2) + '\n';
}

}  // namespace recollect
