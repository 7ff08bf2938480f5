// What a language model would be trained on, shown: which tokens are learned, which are only read, what is padding.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/chat/learn.h"
#include "engine/data/tokenizer/tokenizer.h"

namespace recollect {

struct PreviewSpec {
  int64_t samples = 0;                   // 0: nothing is shown
  std::vector<std::string> inputs = {};  // files and folders of *.jsonl and *.txt
  std::string tokenizer = {}, key = {}, chat_template = {};
  Learn learn = Learn::kAuto;
  int64_t sequence_length = 0;  // 0: nothing is cut or padded
};

// On a terminal learned tokens are green and read ones faint; elsewhere learned ones stand in {+ +}.
void show_preview(const Tokenizer& tokenizer, const PreviewSpec& spec);

}  // namespace recollect
