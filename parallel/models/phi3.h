// Phi-3 and Phi-4 (Abdin et al., 2024) with the semantics of Phi3ForCausalLM: a Llama whose files hold
// queries, keys and values as one tensor and gate and up as another; only a part of each head may be rotated.
#pragma once

#include "parallel/models/family.h"

namespace recollect {

ModelFamily phi3_family();

}  // namespace recollect
