// GPT-NeoX and Pythia (Black et al., 2022; Biderman et al., 2023) with the semantics of
// GPTNeoXForCausalLM: layer norms, rotary positions on a part of each head, attention and MLP in
// parallel, an untied head. In files a tensor holds query, key and value of one head after the other.
#pragma once

#include "parallel/models/family.h"

namespace recollect {

ModelFamily gpt_neox_family();

}  // namespace recollect
