// ModernBERT (Warner et al., 2024) with the semantics of Hugging Face's ModernBertFor... models: pre-norm blocks whose norms and
// linear layers need no bias, gated MLPs, rotary positions, and layers that attend to a window around each token, with a base of
// their own for these positions. Its heads are those of BERT's tasks.
#pragma once

#include "parallel/models/family.h"

namespace recollect {

ModelFamily modernbert_family();

}  // namespace recollect
