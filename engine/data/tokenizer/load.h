// The pieces of load_tokenizer().
#pragma once

#include <memory>
#include <optional>
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

// What transformers reads beside a tokenizer: its tokenizer_config.json and special_tokens_map.json, as far as
// they are there.
class ConfigBeside {
 public:
  explicit ConfigBeside(const std::string& tokenizer_path);
  bool flag(const char* key, bool otherwise) const;
  // Fills parts.special, for a tokenizer of all of whose other parts are there.
  void name_special_tokens(Tokenizer::Parts& parts) const;

 private:
  std::optional<std::string> token(const char* key) const;
  std::string path_, map_path_;
  nlohmann::json config_, map_;  // objects
};

}  // namespace recollect
