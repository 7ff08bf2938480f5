// Gemma 2 (Gemma Team, 2024) with the semantics of Gemma2ForCausalLM: RMS norms before
// and after attention and MLP, with one added to their weights; GELU gates; embeddings
// times the root of their width; capped scores and logits; a window in every other layer.
#pragma once

#include "parallel/models/family.h"

namespace recollect {

ModelFamily gemma2_family();

}  // namespace recollect
