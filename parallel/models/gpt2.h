// GPT-2 (Radford et al., 2019) with the semantics of Hugging Face's GPT2LMHeadModel: learned positions,
// pre-norm blocks, three dropouts, tied head, targets of -100 ignored. Files hold Conv1D weights,
// [in, out].
#pragma once

#include "parallel/models/family.h"

namespace recollect {

ModelFamily gpt2_family();

}  // namespace recollect
