#include "engine/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "engine/core/error.h"
#include "engine/data/formats.h"

namespace recollect {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void configuration_error(const std::string& what, std::string hint = {}) {
  throw Error(ExitCode::kConfiguration, what, std::move(hint));
}

bool is_megatron_prefix(const std::string& path) {
  std::error_code error;
  return !fs::exists(path, error) && fs::exists(path + ".idx", error) && fs::exists(path + ".bin", error);
}

void add_folder(const std::string& folder, const std::vector<std::string>& extensions,
                std::vector<std::string>& files) {
  std::vector<std::string> found;
  try {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
      const std::string extension = entry.path().extension().string();
      const bool wanted = std::find(extensions.begin(), extensions.end(), extension) != extensions.end();
      if (wanted && entry.is_regular_file()) found.push_back(entry.path().string());
    }
  } catch (const fs::filesystem_error& error) {
    throw Error(ExitCode::kInput,
                fmt::format("cannot search the folder {}: {}", folder, error.code().message()));
  }
  if (found.empty())
    throw Error(ExitCode::kInput, fmt::format("the folder {} holds no file ending in {}", folder,
                                              fmt::join(extensions, " or ")));
  std::sort(found.begin(), found.end());
  files.insert(files.end(), found.begin(), found.end());
}

std::vector<std::string> find_files(const std::vector<std::string>& paths,
                                    const std::vector<std::string>& extensions) {
  if (paths.empty()) configuration_error("data.path is missing", "name a file or a folder");
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (fs::is_directory(path, error))
      add_folder(path, extensions, files);
    else if (fs::exists(path, error) || is_megatron_prefix(path))
      files.push_back(path);
    else
      throw Error(ExitCode::kInput, fmt::format("there is no file or folder {}", path));
  }
  return files;
}

void check(const DatasetSpec& spec) {
  if (spec.sequence_length < 2)
    configuration_error(fmt::format("a sequence of {} tokens has nothing to predict", spec.sequence_length),
                        "data.sequence_length must be 2 or more");
  if (spec.vocabulary_size < 1 || spec.vocabulary_size > INT32_MAX)
    configuration_error(fmt::format("a vocabulary of {} ids", spec.vocabulary_size),
                        "it must be between 1 and 2147483647");
}

}  // namespace

std::unique_ptr<Dataset> open_dataset(const DatasetSpec& spec) {
  check(spec);
  if (spec.format == "random") return open_random_dataset(spec);
  if (spec.format == "jsonl") return open_jsonl_dataset(spec, find_files(spec.paths, {".jsonl"}));
  if (spec.format == "tokens") return open_tokens_dataset(spec, find_files(spec.paths, {".bin", ".npy"}));
  if (spec.format == "text") return open_text_dataset(spec, find_files(spec.paths, {".txt"}));
  configuration_error(fmt::format("unknown data.format \"{}\"", spec.format),
                      "it is one of random, jsonl, tokens, text");
}

}  // namespace recollect
