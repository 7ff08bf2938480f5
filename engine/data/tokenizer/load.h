// The pieces of load_tokenizer().
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/data/tokenizer/tokenizer.h"
#include "engine/io/json.h"

namespace recollect {

// Error kInput unless `json` is an object of tokens and their ids.
std::vector<std::pair<std::string, uint64_t>> read_vocabulary(const nlohmann::json& json,
                                                              const std::string& source);

// "left right", as a line of merges.txt has it. Error kInput naming `where`.
std::pair<std::string, std::string> read_merge(const std::string& line, const std::string& where);

// What tokenizer.json holds, parsed.
Tokenizer::Parts read_tokenizer_json(const nlohmann::json& json, const std::string& path);

// Its "post_processor" and its "decoder". Those that are not carried out say so in `refused`.
PostProcessor read_post_processor(const nlohmann::json& json, std::size_t vocabulary_size,
                                  const std::string& source);
DecoderOptions read_decoder(const nlohmann::json& json, const std::string& source);

}  // namespace recollect
