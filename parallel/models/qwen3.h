// Qwen3 (Yang et al., 2025), its dense models, with the semantics of Qwen3ForCausalLM: a Llama with a head size of its own and
// RMS norms of each head of queries and keys.
#pragma once

#include "parallel/models/family.h"

namespace recollect {

ModelFamily qwen3_family();

}  // namespace recollect
