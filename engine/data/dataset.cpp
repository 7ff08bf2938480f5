#include "engine/data/dataset.h"

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/data/find_files.h"
#include "engine/data/formats.h"

namespace recollect {
namespace {

[[noreturn]] void configuration_error(const std::string& what, std::string hint = {}) {
  throw Error(ExitCode::kConfiguration, what, std::move(hint));
}

std::vector<std::string> found_files(DataFormat format, const std::vector<std::string>& paths) {
  if (paths.empty()) configuration_error("data.path is missing", "name a file or a folder");
  if (format == DataFormat::kJsonl) return find_files(paths, {".jsonl"});
  if (format == DataFormat::kTokens) return find_files(paths, {".bin", ".npy"});
  return find_files(paths, {".txt"});
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
  switch (spec.format) {
    case DataFormat::kRandom:
      return open_random_dataset(spec);
    case DataFormat::kJsonl:
      return open_jsonl_dataset(spec, found_files(spec.format, spec.paths));
    case DataFormat::kTokens:
      return open_tokens_dataset(spec, found_files(spec.format, spec.paths));
    case DataFormat::kText:
      return open_text_dataset(spec, found_files(spec.format, spec.paths));
  }
  throw Error(ExitCode::kInternal, "a data format without a reader");
}

std::vector<std::string> files_of_data(DataFormat format, const std::vector<std::string>& paths) {
  if (format != DataFormat::kTokens) return found_files(format, paths);
  std::vector<std::string> files;
  for (const std::string& path : found_files(format, paths))
    for (std::string& file : files_of_tokens(path)) files.push_back(std::move(file));
  return files;
}

}  // namespace recollect
