// GPT-2's pre-tokenization by hand. Text is valid UTF-8.
#pragma once

#include <string_view>

#include "engine/data/tokenizer/unicode.h"

namespace recollect {

// The end of the word at `at` by
// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
std::size_t gpt2_word_end(const Characters& characters, std::string_view text, std::size_t at);

}  // namespace recollect
