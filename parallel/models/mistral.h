// Mistral 7B (Jiang et al., 2023) with the semantics of MistralForCausalLM: a Llama whose attention has a window.
#pragma once

#include "parallel/models/family.h"

namespace recollect {

ModelFamily mistral_family();

}  // namespace recollect
