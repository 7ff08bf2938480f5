#include "launch/config/saved_model.h"

#include <algorithm>
#include <cstdlib>
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
#include "parallel/snapshot/snapshot_folder.h"

namespace recollect {

namespace {

bool holds_weights(const std::string& folder) {
  std::error_code error;
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"})
    if (std::filesystem::exists(std::filesystem::path(folder) / name, error)) return true;
  return false;
}

// "the best model, of step 50 (eval_loss 0.12, eval_accuracy 1)", as evaluation.json there says.
std::string description_of_best(const std::string& folder) {
  constexpr uint64_t kMostText = 64 << 10;
  std::string text;
  if (!read_file_text(folder + "/evaluation.json", kMostText, text).empty()) return "the best model";
  const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("step")) return "the best model";
  std::string values;
  for (const auto& [key, value] : json.items())
    if (key != "step" && value.is_number())
      values += fmt::format("{}{} {:.4g}", values.empty() ? "" : ", ", printable(key), value.get<double>());
  return fmt::format("the best model, of step {}{}", json["step"].dump(),
                     values.empty() ? "" : " (" + values + ")");
}

// A folder of the run that holds what is sought; "" where none does.
template <typename Holds>
std::string folder_of_saved(const std::string& output, WhichModel wanted, const Holds& holds) {
  const std::string best = output + kBestModelFolder;
  const bool has_last = holds(output), has_best = holds(best);
  if (has_best && (wanted == WhichModel::kBest || !has_last)) return best;
  return has_last ? output : "";
}

std::string said_of(const std::string& folder, const Config& config) {
  if (folder == config.output_dir) return "";
  return fmt::format("{} is {}", printable(folder), description_of_best(folder));
}

// What makes a model of what the run has left.
std::string hint_at_weights(const Config& config) {
  const std::string& output = config.output_dir;
  const std::string snapshots = config.snapshot.path.empty() ? output + "/snapshots" : config.snapshot.path;
  const std::string earlier = output + "/earlier";
  std::error_code error;
  std::string state;
  for (std::filesystem::directory_iterator entry(snapshots, error), end; !error && entry != end;
       entry.increment(error))
    if (step_of_folder(entry->path().filename().string()) >= 0) state = snapshots;
  if (!state.empty())
    return fmt::format(
        "`recollect snapshot convert {0} {1}/model --to hf` makes a model of the run's newest snapshot, for "
        "model.pretrained={1}/model; or start the run again with checkpoint.save_model=true, which "
        "saves the model at its end",
        state, output);
  std::filesystem::path newest;
  error.clear();
  for (std::filesystem::directory_iterator entry(earlier, error), end; !error && entry != end;
       entry.increment(error))
    if (holds_weights(entry->path()) && (newest.empty() || std::atoi(entry->path().filename().c_str()) >
                                                               std::atoi(newest.filename().c_str())))
      newest = entry->path();
  if (!newest.empty())
    return fmt::format(
        "a run before has left a model: model.pretrained={}; or train with checkpoint.save_model=true",
        newest.string());
  return "train with checkpoint.save_model=true, or name a model's folder: model.pretrained=FOLDER";
}

// Adapters are of the model that the configuration names.
std::string choose_saved_adapters(Config& config, WhichModel wanted) {
  const auto path = config.origins.find("lora.path");
  if (path != config.origins.end() && path->second.line == 0) return "";  // the command line says which
  const std::string folder = folder_of_saved(config.output_dir, wanted, holds_adapters);
  if (folder.empty() && config.lora.path.empty())
    throw Error(ExitCode::kConfiguration,
                fmt::format("there are no adapters: output_dir {} has no adapter_model.safetensors",
                            config.output_dir),
                "train with checkpoint.save_model=true, or name their folder in lora.path");
  if (folder.empty()) return "";
  config.lora.path = folder;
  return said_of(folder, config);
}

// Its "id2label", or "label2id" turned around. Error kInput where the two contradict each other.
nlohmann::json names_by_number(const nlohmann::json& document, const std::string& folder) {
  nlohmann::json names = document.value("id2label", nlohmann::json());
  const nlohmann::json numbers = document.value("label2id", nlohmann::json());
  if (!numbers.is_object()) return names;
  nlohmann::json turned = nlohmann::json::object();
  for (const auto& [name, number] : numbers.items())
    if (number.is_number_integer()) turned[std::to_string(number.get<int64_t>())] = name;
  if (turned.size() != numbers.size()) return names;
  if (names.is_object() && names.size() == turned.size() && names != turned)
    throw Error(ExitCode::kInput,
                fmt::format("{}: id2label and label2id contradict each other", hf_config_path("", folder)),
                "make them agree: which number is which class?");
  return names.is_object() ? names : turned;
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
  if (!document.is_object()) return {};
  const nlohmann::json by_number = names_by_number(document, folder);
  std::vector<std::string> names;
  if (!by_number.is_object()) return names;
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

std::string choose_saved_weights(const std::vector<std::string>& keys, Config& config, WhichModel wanted) {
  if (config.lora.rank > 0) return choose_saved_adapters(config, wanted);
  const std::string folder = folder_of_saved(config.output_dir, wanted, holds_weights);
  if (sets_pretrained(keys)) {
    const std::string& named = config.model.pretrained;
    std::error_code error;
    const bool of_the_run =
        std::filesystem::equivalent(named, config.output_dir, error) ||
        std::filesystem::equivalent(std::filesystem::path(named).parent_path(), config.output_dir, error);
    if (!folder.empty() && !of_the_run)
      warn("the weights are those of model.pretrained, {}; the ones that a run has saved in {} are not used",
           printable(named), printable(folder));
    return "";
  }
  if (!folder.empty()) {
    config.model.pretrained = folder;
    return said_of(folder, config);
  }
  if (config.model.pretrained.empty())
    throw Error(
        ExitCode::kConfiguration,
        fmt::format("there are no weights: output_dir {} has no model.safetensors", config.output_dir),
        hint_at_weights(config));
  return "";
}

}  // namespace recollect
