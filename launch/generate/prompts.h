// The prompts of a run as token ids, the same on every rank.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "launch/generate/options.h"
#include "launch/generate/text_codec.h"

namespace recollect {

struct Prompt {
  std::string text = {};  // on rank 0 alone
  std::vector<int32_t> ids = {};
  int64_t new_tokens = 0;  // at most
};

// Errors kInput, naming the line of a file: no text, no tokens, not UTF-8, a tokenizer with more ids than the
// model, and more tokens than the model has room for.
std::vector<Prompt> read_prompts(const GenerateOptions& options, TextCodec& codec);

// Collective: those of rank 0.
void share_prompts(std::vector<Prompt>& prompts, Communicator& world);

}  // namespace recollect
