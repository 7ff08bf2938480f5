// BERT (Devlin et al., 2019) with the semantics of Hugging Face's BertFor... models: learned positions, token
// types, post-norm blocks, attention to the first `lengths` tokens of a sample. Its heads are masked language
// modelling's (tied to the token embedding), and those of classes, choices and spans.
#pragma once

#include "parallel/models/family.h"

namespace recollect {

ModelFamily bert_family();

}  // namespace recollect
