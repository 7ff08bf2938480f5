// GPT-NeoX and Pythia (Black et al., 2022; Biderman et al., 2023) with the semantics of GPTNeoXForCausalLM: layer norms, rotary
// positions of a part of each head, attention and MLP side by side, a head of its own. Files hold each head's query, key and
// value one after the other.
#pragma once

#include "parallel/models/family.h"

namespace recollect {

ModelFamily gpt_neox_family();

}  // namespace recollect
