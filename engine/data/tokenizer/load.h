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

// Its "normalizer" and its "pre_tokenizer", as steps that refer to `characters`. Errors: kInput for what is not carried
// out here.
Normalizers read_normalizers(const nlohmann::json& json, const Characters& characters,
                             const std::string& source);
// `gives_bytes`: the last step need not spell bytes, since the model takes them as they are; set to whether it does not.
PreTokenizers read_pre_tokenizers(const nlohmann::json& json, const Characters& characters,
                                  const std::string& source, bool& gives_bytes);

// {"String": ...} or {"Regex": ...}, called `name`.
Pattern read_pattern(const nlohmann::json& json, const std::string& name, const Characters& characters,
                     const std::string& source);
struct MetaspaceFields {
  std::string replacement;
  PrependScheme scheme = PrependScheme::kAlways;
  bool splits = true;
};
class JsonFields;
MetaspaceFields read_metaspace(JsonFields& fields);

}  // namespace recollect
