// Tokenizer classes of Transformers 5 that take no more than the vocabulary of a tokenizer.json, make all else anew, and
// cannot be made here.
#pragma once

#include <string>

namespace recollect {

// `name`: without "Fast".
bool makes_what_is_not_followed(const std::string& name);

}  // namespace recollect
