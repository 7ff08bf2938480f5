#include "launch/config/saved_model.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "engine/io/file_text.h"
#include "engine/io/yaml_document.h"
#include "launch/config/hf_config.h"

namespace recollect {

namespace {

bool holds_weights(const std::string& folder) {
  std::error_code error;
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"})
    if (std::filesystem::exists(std::filesystem::path(folder) / name, error)) return true;
  return false;
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

void choose_saved_weights(const std::vector<std::string>& keys, Config& config) {
  if (sets_pretrained(keys)) return;
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
