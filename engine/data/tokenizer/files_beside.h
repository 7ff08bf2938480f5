// What lies beside a tokenizer's vocabulary, read as AutoTokenizer of Transformers 5 reads it: tokenizer_config.json,
// special_tokens_map.json, added_tokens.json, and of config.json what names the tokenizer's class.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/io/json.h"

namespace recollect {

struct TokenBeside {
  std::string content;
  bool single_word = false, lstrip = false, rstrip = false, normalized = false, special = true;
};

struct FilesBeside {
  std::string folder;                       // "" or one that ends with a slash
  nlohmann::json config;                    // tokenizer_config.json; an empty object where there is none
  std::string model_type, tokenizer_class;  // the class without "Fast"; "" where nothing says it
  bool class_is_of_model = false;           // config.json names the class
  // Of the seven names that Transformers knows ("pad_token"), those that a file says; nothing: null.
  std::map<std::string, std::optional<TokenBeside>> named;
  std::vector<TokenBeside>
      others;  // tokens with names of their own, and those of lists, in Transformers' order
  std::map<uint64_t, TokenBeside>
      added;  // by the ids that the files say; of tokenizer.json too, where it counts

  std::string where(const char* file) const { return folder + file; }
  // Errors: kInput naming the file and the key.
  bool flag(const char* key, bool otherwise) const;
  std::string text(const char* key, const char* otherwise) const;
  std::optional<bool> said_flag(const char* key) const;
};

// `vocabulary`: the file beside which they lie. `tokenizer_json`: its content where it is one. Errors: kInput for what
// Transformers refuses, and for settings that are not followed here.
FilesBeside read_files_beside(const std::string& vocabulary, const nlohmann::json* tokenizer_json);

// The names in which Transformers 5 looks for special tokens, in the order in which it adds them.
inline constexpr const char* kNamedTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                               "pad_token", "cls_token", "mask_token"};

}  // namespace recollect
