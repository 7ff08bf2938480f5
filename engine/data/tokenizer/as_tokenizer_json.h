// A tokenizer's folder as one tokenizer.json would say it: what AutoTokenizer of Transformers 5 makes of the vocabulary and
// of the files beside it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/data/tokenizer/files_beside.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "engine/data/tokenizer/tokenizer_class.h"
#include "engine/io/json.h"

namespace recollect {

struct SpecialToken {
  std::string content;
  uint32_t id = 0;
};

struct TokenizerAsRead {
  nlohmann::json json;
  FilesBeside beside;
  TokenizerClass choice = TokenizerClass::kUnsaid;
  TokenizerClass made_as = TokenizerClass::kAsFile;  // the class that has made it anew
  bool all_usual = true;                             // no special token that the class knows is missing
  bool byte_level = false;                           // a tokenizer.json that has the word
  std::map<std::string, SpecialToken> special = {};  // "pad_token" and the others, where they are
  TokenizerHabits habits = {};
  bool cleans_text = false;      // clean_up_tokenization_spaces
  std::string no_template = {};  // not empty: why nothing is known to be put around a text
  std::vector<std::string> remarks = {};
};

// `file`: tokenizer.json, vocab.json or a vocab.txt. Errors: kInput.
TokenizerAsRead read_as_tokenizer_json(const std::string& file);

// model_max_length; 0: without end.
int64_t longest_of(const FilesBeside& beside);

SpecialIds special_ids_of(const TokenizerAsRead& read);

}  // namespace recollect
