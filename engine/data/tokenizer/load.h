// The pieces of load_tokenizer().
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/data/tokenizer/tokenizer.h"

namespace recollect {

// Error kInput unless `json` is an object of tokens and their ids.
std::vector<std::pair<std::string, uint64_t>> read_vocabulary(const nlohmann::json& json,
                                                              const std::string& source);

// "left right", as a line of merges.txt has it. Error kInput naming `where`.
std::pair<std::string, std::string> read_merge(const std::string& line, const std::string& where);

// What tokenizer.json holds, parsed.
std::unique_ptr<Tokenizer> read_tokenizer_json(const nlohmann::json& json, const std::string& path);

}  // namespace recollect
