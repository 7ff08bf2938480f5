// Qwen3 (Yang et al., 2025), dense models, with the semantics of Qwen3ForCausalLM: a Llama with its own head size and
// RMS norms of each query head and key head.
#pragma once

#include "parallel/models/family.h"

namespace recollect {

ModelFamily qwen3_family();

}  // namespace recollect
