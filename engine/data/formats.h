// The datasets behind open_dataset(), one per format. Specs are already checked here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/data/dataset.h"

namespace recollect {

std::unique_ptr<Dataset> open_random_dataset(const DatasetSpec& spec);
// `files` are files: folders have been searched.
std::unique_ptr<Dataset> open_jsonl_dataset(const DatasetSpec& spec, const std::vector<std::string>& files);
std::unique_ptr<Dataset> open_tokens_dataset(const DatasetSpec& spec, const std::vector<std::string>& files);
// The file itself, or the pair of files that the path names.
std::vector<std::string> files_of_tokens(const std::string& path);
std::unique_ptr<Dataset> open_text_dataset(const DatasetSpec& spec, const std::vector<std::string>& files);

}  // namespace recollect
