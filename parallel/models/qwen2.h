// Qwen2 (Yang et al., 2024) with the semantics of Qwen2ForCausalLM: a Llama with biases of queries, keys and values.
#pragma once

#include "parallel/models/family.h"

namespace recollect {

ModelFamily qwen2_family();

}  // namespace recollect
