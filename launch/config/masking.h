// What task masked_lm masks with, where the tokenizer of the data says it.
#pragma once

#include <string>

#include "launch/config/config.h"

namespace recollect {

// The tokenizer that data.mask_token and data.special_tokens are taken from where they are not given: data.tokenizer, or for
// token files also model.pretrained. "" where nothing of the data is masked, or no tokenizer is named.
std::string masking_tokenizer(const Config& config);

// Completes the mask token, and the special tokens where data.tokenizer is named. Special tokens that Transformers has (BOS, EOS, UNK, SEP, PAD, CLS, MASK) are never masked. Errors:
// kConfiguration where the tokenizer has no mask token, and those of load_tokenizer().
void complete_masking(Config& config);

}  // namespace recollect
