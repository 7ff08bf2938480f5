#include "launch/config/saved_model.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "engine/io/file_text.h"
#include "engine/io/json.h"
#include "engine/io/standard_output.h"
#include "engine/io/yaml_document.h"
#include "launch/config/hf_config.h"
#include "launch/config/lora_keys.h"

namespace recollect {

namespace {

bool holds_weights(const std::string& folder) {
  std::error_code error;
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"})
    if (std::filesystem::exists(std::filesystem::path(folder) / name, error)) return true;
  return false;
}

// Adapters are of the model that the configuration names.
void choose_saved_adapters(Config& config) {
  const auto path = config.origins.find("lora.path");
  if (path != config.origins.end() && path->second.line == 0) return;  // the command line says which
  if (holds_adapters(config.output_dir)) {
    config.lora.path = config.output_dir;
  } else if (config.lora.path.empty()) {
    throw Error(ExitCode::kConfiguration,
                fmt::format("there are no adapters: output_dir {} has no adapter_model.safetensors",
                            config.output_dir),
                "train with checkpoint.save_model=true, or name their folder in lora.path");
  }
}

}  // namespace

bool sets_pretrained(const std::vector<std::string>& keys) {
  return std::any_of(keys.begin(), keys.end(),
                     [](const std::string& key) { return key.starts_with("model.pretrained="); });
}

std::vector<std::string> saved_label_names(const std::string& folder) {
  std::string text;
  if (!read_file_text(hf_config_path("", folder), kMaxDocumentBytes, text).empty()) return {};
  const auto document = nlohmann::json::parse(text, nullptr, false);
  if (!document.is_object() || !document.contains("id2label")) return {};
  const nlohmann::json& by_number = document["id2label"];
  std::vector<std::string> names;
  for (std::size_t i = 0; i < by_number.size(); ++i) {
    const auto name = by_number.find(std::to_string(i));
    if (name == by_number.end() || !name->is_string() || *name == fmt::format("LABEL_{}", i)) return {};
    names.push_back(name->get<std::string>());
  }
  return names;
}

std::vector<int32_t> ends_of_text(const std::string& folder) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    std::string text;
    const std::string path = (std::filesystem::path(folder) / name).string();
    if (!read_file_text(path, kMaxDocumentBytes, text).empty()) continue;
    const auto json = nlohmann::json::parse(text, nullptr, false);
    const auto found = json.is_object() ? json.find("eos_token_id") : json.end();
    if (!json.is_object() || found == json.end() || found->is_null()) continue;
    std::vector<int32_t> ids;
    const nlohmann::json list = found->is_array() ? *found : nlohmann::json::array({*found});
    for (const nlohmann::json& id : list)
      if (id.is_number_unsigned() && id.get<uint64_t>() <= INT32_MAX) ids.push_back(id.get<int32_t>());
    return ids;
  }
  return {};
}

void choose_saved_weights(const std::vector<std::string>& keys, Config& config) {
  if (config.lora.rank > 0) return choose_saved_adapters(config);
  if (sets_pretrained(keys)) {
    if (holds_weights(config.output_dir) && config.model.pretrained != config.output_dir)
      warn("the weights are those of model.pretrained, {}; the ones that a run has saved in {} are not used",
           printable(config.model.pretrained), printable(config.output_dir));
    return;
  }
  if (holds_weights(config.output_dir)) {
    config.model.pretrained = config.output_dir;
  } else if (config.model.pretrained.empty()) {
    throw Error(
        ExitCode::kConfiguration,
        fmt::format("there are no weights: output_dir {} has no model.safetensors", config.output_dir),
        "train with checkpoint.save_model=true, or name a model's folder");
  }
}

}  // namespace recollect
