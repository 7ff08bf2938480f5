#include "launch/config/saved_model.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "engine/core/error.h"

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
