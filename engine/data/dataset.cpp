#include "engine/data/dataset.h"

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/data/find_files.h"
#include "engine/data/formats.h"
#include "engine/data/tasks.h"

namespace recollect {
namespace {

[[noreturn]] void configuration_error(const std::string& what, std::string hint = {}) {
  throw Error(ExitCode::kConfiguration, what, std::move(hint));
}

// Of the files that are looked for in a folder.
std::vector<std::string> extensions_of(DataFormat format) {
  switch (format) {
    case DataFormat::kJsonl:
      return {".jsonl"};
    case DataFormat::kTokens:
      return {".bin", ".npy"};
    case DataFormat::kCsv:
    case DataFormat::kSwag:
      return {".csv"};
    case DataFormat::kSquad:
      return {".json"};
    case DataFormat::kRandom:
    case DataFormat::kText:
      return {".txt"};
    case DataFormat::kConll:
      return {".conll", ".txt"};
    default:
      return {".tsv"};  // and GLUE's
  }
}

std::vector<std::string> found_files(DataFormat format, const std::vector<std::string>& paths) {
  if (paths.empty()) configuration_error("data.path is missing", "name a file or a folder");
  return find_files(paths, extensions_of(format));
}

void check(const DatasetSpec& spec) {
  if (spec.sequence_length < 2)
    configuration_error(fmt::format("a sequence of {} tokens has nothing to predict", spec.sequence_length),
                        "data.sequence_length must be 2 or more");
  if (spec.vocabulary_size < 1 || spec.vocabulary_size > INT32_MAX)
    configuration_error(fmt::format("a vocabulary of {} ids", spec.vocabulary_size),
                        "it must be between 1 and 2147483647");
}

// Text and tokens are ids and nothing else.
void check_ids_suffice(const DatasetSpec& spec) {
  for (const FieldSpec& field : spec.fields)
    if (field.required && field.name != "ids")
      configuration_error(
          fmt::format("{} data has no \"{}\", which the task learns from", name_of(spec.format), field.key),
          "data.format must be jsonl, or random");
}

}  // namespace

std::unique_ptr<Dataset> open_dataset(const DatasetSpec& given) {
  check(given);
  DatasetSpec spec = given;
  if (spec.fields.empty())
    spec.fields =
        causal_lm_data({.sequence_length = spec.sequence_length, .vocabulary_size = spec.vocabulary_size})
            .fields;
  if (spec.format == DataFormat::kTokens || spec.format == DataFormat::kText) check_ids_suffice(spec);
  switch (spec.format) {
    case DataFormat::kRandom:
      return open_random_dataset(spec);
    case DataFormat::kJsonl:
      return open_jsonl_dataset(spec, found_files(spec.format, spec.paths));
    case DataFormat::kTokens:
      return open_tokens_dataset(spec, found_files(spec.format, spec.paths));
    case DataFormat::kText:
      return open_text_dataset(spec, found_files(spec.format, spec.paths));
    default:
      throw Error(ExitCode::kInternal, "texts are opened as a dataset, and not prepared",
                  "this is a bug in recollect");
  }
}

std::vector<std::string> files_of_data(DataFormat format, const std::vector<std::string>& paths) {
  if (format != DataFormat::kTokens) return found_files(format, paths);
  std::vector<std::string> files;
  for (const std::string& path : found_files(format, paths))
    for (std::string& file : files_of_tokens(path)) files.push_back(std::move(file));
  return files;
}

}  // namespace recollect
