// Tokenizers as a class of Transformers makes them: of a vocabulary, and the settings beside it.
#pragma once

#include <string>

#include "engine/data/tokenizer/files_beside.h"
#include "engine/data/tokenizer/tokenizer_class.h"
#include "engine/io/json.h"

namespace recollect {

// "model" of a tokenizer.json, of vocab.json and the merges beside it, or of a vocab.txt. Errors: kInput.
nlohmann::json read_vocabulary_model(const std::string& file);

// A whole tokenizer.json with the vocabulary, merges and charsmap of `model`, without added tokens and post_processor.
// `choice`: the class that rebuilds the tokenizer. `unknown`: the unknown token.
nlohmann::json rebuilt_tokenizer(TokenizerClass choice, nlohmann::json model, const FilesBeside& beside,
                                 const std::string& unknown);

// What of `whole`, a tokenizer.json, is not in `rebuilt`: "pre_tokenizer", "model.ignore_merges"; what the settings beside it
// say left out. "" where nothing.
std::string lost_by_rebuilding(const nlohmann::json& whole, const nlohmann::json& rebuilt);

constexpr std::string_view kVocabularyJson = "vocab.json", kMergesTxt = "merges.txt";

// What lies beside a vocab.json, or a prefix-vocab.json.
std::string merges_beside(const std::string& path);

}  // namespace recollect
