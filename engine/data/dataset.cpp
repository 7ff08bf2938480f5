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

std::vector<std::string> files_of(const DatasetSpec& spec, const std::vector<std::string>& extensions) {
  if (spec.paths.empty()) configuration_error("data.path is missing", "name a file or a folder");
  return find_files(spec.paths, extensions);
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
  if (spec.format == "jsonl") return open_jsonl_dataset(spec, files_of(spec, {".jsonl"}));
  if (spec.format == "tokens") return open_tokens_dataset(spec, files_of(spec, {".bin", ".npy"}));
  if (spec.format == "text") return open_text_dataset(spec, files_of(spec, {".txt"}));
  configuration_error(fmt::format("unknown data.format \"{}\"", spec.format),
                      "it is one of random, jsonl, tokens, text");
}

}  // namespace recollect
