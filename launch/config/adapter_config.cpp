// adapter_config.json, in which PEFT says what adapters are: read as values of the section `lora`, which has PEFT's names
// as aliases, and written of a configuration.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "engine/core/printable.h"
#include "engine/io/file_text.h"
#include "engine/io/json.h"
#include "engine/io/yaml_document.h"
#include "launch/config/lora_keys.h"

namespace recollect {

namespace {

using nlohmann::json;

// Of LoraConfig, the keys that are ours too.
constexpr std::array kShared = {"r",          "lora_alpha",     "lora_dropout", "target_modules",
                                "use_rslora", "modules_to_save"};
// Those that change what is computed, and must be absent, null, false or empty.
constexpr std::array kUnsupported = {"use_dora",          "use_qalora",        "lora_bias",
                                     "rank_pattern",      "alpha_pattern",     "layers_to_transform",
                                     "layer_replication", "target_parameters", "trainable_token_indices",
                                     "exclude_modules",   "megatron_config",   "alora_invocation_tokens",
                                     "use_bdlora",        "arrow_config",      "kasa_config",
                                     "velora_config",     "monteclora_config"};

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
  if (name == "modules_to_save" && value.is_null()) return json::array();
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
  return name == "target_modules"
             ? same_modules(a.targets, b.targets)
             : name == "modules_to_save" && same_modules(a.modules_to_save, b.modules_to_save);
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
    if (name == "target_modules" && value.is_string() && value != kAllLinear) {
      if (!given)
        say(key.path(), "target_modules is a pattern; write lora.targets, a list of modules' names");
      return;
    }
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

std::string adapter_description(const Config& config, const Model& model) {
  const Config::Lora& lora = config.lora;
  const bool all = std::find(lora.targets.begin(), lora.targets.end(), kAllLinear) != lora.targets.end();
  std::vector<std::string> modules;  // by their whole names: PEFT may see others in all-linear
  for (const Parameter& p : model.parameters)
    if (p.adapter && p.name.ends_with(".lora_A.weight"))
      modules.emplace_back(module_of(module_of(model.files.in_file(p.name))));
  const bool transposed = std::any_of(model.parameters.begin(), model.parameters.end(),
                                      [](const Parameter& p) { return p.linear && p.transposed_in_file; });
  const bool whole = lora.alpha == static_cast<double>(static_cast<int64_t>(lora.alpha));
  const nlohmann::ordered_json document = {
      {"peft_type", "LORA"},
      {"task_type", task_type(config.task)},
      {"base_model_name_or_path", config.model.pretrained},
      {"r", lora.rank},
      {"lora_alpha", whole ? json(static_cast<int64_t>(lora.alpha)) : json(lora.alpha)},
      {"lora_dropout", lora.dropout},
      {"target_modules", all ? modules : lora.targets},
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
