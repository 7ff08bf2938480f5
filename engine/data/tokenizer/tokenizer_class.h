// Which class AutoTokenizer of Transformers 5 takes for a folder. The class decides whether a tokenizer.json counts as it
// is, or only its vocabulary, with the rest made anew.
#pragma once

#include "engine/data/tokenizer/files_beside.h"

namespace recollect {

enum class TokenizerClass {
  kUnsaid,  // no file says it
  kAsFile,  // tokenizer.json as it is
  kGpt2,
  kBert,
  kQwen2,
  kLlama,
  kRoberta,
  kGptNeoX,
  kGemma,
  kT5,
  kXlmRoberta,
  kOther  // Transformers has it, or a file beside; what it does is not known here
};

// Of a class by its name without "Fast".
TokenizerClass tokenizer_class_of(const std::string& name);

// `byte_level`: there is a tokenizer.json that has the word. One thing is not as there: beside a model of type qwen2
// Transformers 5 takes Qwen2Tokenizer whatever the files say, and here the class that they say counts, as in Transformers 4.
TokenizerClass choose_tokenizer_class(const FilesBeside& beside, bool byte_level);

// With that exception.
TokenizerClass class_of_transformers(const FilesBeside& beside, bool byte_level);

// The name in Transformers; for unknown classes the one that takes tokenizer.json as it is.
const char* tokenizer_class_name(TokenizerClass choice);

enum class VocabularyKind { kWordPieces, kBytePairs, kScoredPieces };
// The vocabulary that a class reads when it rebuilds its tokenizer.
VocabularyKind vocabulary_kind(TokenizerClass choice);

}  // namespace recollect
