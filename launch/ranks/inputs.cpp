#include "launch/ranks/inputs.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "comm/agree.h"
#include "engine/core/hash.h"
#include "engine/data/dataset.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "engine/io/file_digest.h"
#include "engine/io/safetensors.h"
#include "launch/config/lora_keys.h"
#include "launch/config/validate.h"
#include "launch/ranks/program_identity.h"

namespace recollect {

namespace {

constexpr uint64_t kMostOfFiles = 256 << 20, kMostOfFile = 16 << 20;  // most bytes to read

std::vector<std::string> files_of_model(const std::string& folder) {
  std::vector<std::string> files;
  const SafetensorsSet weights(folder);
  for (const SafetensorsFile& file : weights.files()) files.push_back(file.path());
  return files;
}

std::vector<std::string> files_of_adapters(const std::string& folder) {
  return {folder + kAdapterConfig, folder + kAdapterFile};
}

std::vector<std::string> files_of(DataFormat format, const std::vector<std::string>& paths) {
  if (format == DataFormat::kRandom) return {};
  return files_of_data(format, paths);
}

// Bytes to read of each file.
uint64_t digested_bytes(const std::vector<std::string>& files) {
  return std::min(kMostOfFile, kMostOfFiles / std::max<std::size_t>(1, files.size()));
}

std::vector<std::string> files_of_parts(const std::string& tokenizer) {
  std::vector<std::string> files;
  for (const TokenizerFile& file : parts_of_tokenizer(tokenizer)) files.push_back(file.path);
  return files;
}

void add_files(const std::string& key, const std::vector<std::string>& files,
               std::map<std::string, std::string>& texts) {
  texts[key] = fmt::format("{} {}", files.size(), files.size() == 1 ? "file" : "files");
  for (const std::string& file : files) texts[key + ", " + file] = file_digest(file, digested_bytes(files));
}

void add_dataset(const std::string& key, DataFormat format, const std::vector<std::string>& paths,
                 std::map<std::string, std::string>& texts) {
  if (format != DataFormat::kRandom) add_files(key, files_of(format, paths), texts);
}

}  // namespace

std::vector<std::string> files_read(const Config& config) {
  std::vector<std::string> files{config.model.config, config.activation_checkpointing.plan,
                                 config.device.model};
  if (const auto file = config.origins.find(""); file != config.origins.end())
    files.push_back(file->second.text);
  const auto add = [&](const std::vector<std::string>& more) {
    files.insert(files.end(), more.begin(), more.end());
  };
  if (const std::string& folder = config.model.pretrained; !folder.empty()) {
    add({folder + "/config.json", folder + "/model.safetensors.index.json"});
    add(files_of_model(folder));
  }
  if (!config.lora.path.empty()) add(files_of_adapters(config.lora.path));
  if (!config.data.tokenizer.empty()) add(files_of_tokenizer(config.data.tokenizer));
  if (config.training.max_steps > 0) add(files_of(config.data.format, config.data.path));
  if (config.evaluation.runs()) add(files_of(config.evaluation.format, config.evaluation.path));
  std::erase_if(files, [](const std::string& file) { return file.empty(); });
  return files;
}

void check_data_files(const Config& config) {
  std::vector<Finding> missing;
  std::string hint;
  const auto look = [&](const std::string& key, DataFormat format, const std::vector<std::string>& paths) {
    for (std::size_t i = 0; i < paths.size(); ++i) {
      try {
        files_of(format, {paths[i]});
      } catch (const Error& error) {
        if (error.code() != ExitCode::kInput) throw;
        missing.push_back({{origin_of_entry(key, i), key}, fmt::format("{}: {}", key, error.what())});
        if (hint.empty()) hint = error.hint();
      }
    }
  };
  if (config.training.max_steps > 0) look("data.path", config.data.format, config.data.path);
  if (config.evaluation.runs()) look("evaluation.path", config.evaluation.format, config.evaluation.path);
  const std::string& tokenizer = config.data.tokenizer;
  std::error_code unknown;
  if (!tokenizer.empty() && !std::filesystem::exists(tokenizer, unknown))
    missing.push_back({{"data.tokenizer", "model.pretrained"},
                       fmt::format("data.tokenizer: there is no file or folder {}", tokenizer)});
  Problems problems;
  report(missing, config, {}, problems);
  if (!problems.empty()) throw Error(ExitCode::kInput, problems.text(), hint);
}

std::map<std::string, std::string> contents_of_inputs(const Config& config) {
  std::map<std::string, std::string> words;
  const auto add = [&](const std::string& key, const std::vector<std::string>& files) {
    std::string digests;
    for (const std::string& file : files) digests += file_digest(file, digested_bytes(files)) + "\n";
    if (!files.empty()) words[key] = fmt::format("{:016x}", hash_bytes(digests.data(), digests.size()));
  };
  if (config.training.max_steps > 0) add("data.path", files_of(config.data.format, config.data.path));
  if (!config.data.tokenizer.empty()) add("data.tokenizer", files_of_parts(config.data.tokenizer));
  if (config.lora.rank > 0 && !config.model.pretrained.empty())
    add("model.pretrained", files_of_model(config.model.pretrained));
  return words;
}

void check_inputs_agree(const Config& config, Communicator& world) {
  if (world.size() == 1) return;
  std::map<std::string, std::string> texts = program_identity(config.device.isa);
  if (!config.model.pretrained.empty())
    add_files("model.pretrained", files_of_model(config.model.pretrained), texts);
  if (!config.lora.path.empty()) add_files("lora.path", files_of_adapters(config.lora.path), texts);
  if (!config.data.tokenizer.empty())
    add_files("data.tokenizer", files_of_parts(config.data.tokenizer), texts);
  if (config.training.max_steps > 0) add_dataset("data.path", config.data.format, config.data.path, texts);
  if (config.evaluation.runs())
    add_dataset("evaluation.path", config.evaluation.format, config.evaluation.path, texts);
  check_texts_agree(
      texts, "inputs",
      "give every rank the same program and the same files: copy them, or put them where all see them",
      world);
}

}  // namespace recollect
