// BERT (Devlin et al., 2019), RoBERTa (Liu et al., 2019), XLM-RoBERTa, which is the same model, and DistilBERT (Sanh et al.,
// 2019), with the semantics of Hugging Face's classes of these names: rows of one table (bert_layers.h).
#pragma once

#include "parallel/models/family.h"

namespace recollect {

ModelFamily bert_family();
ModelFamily roberta_family();
ModelFamily xlm_roberta_family();
ModelFamily distilbert_family();

}  // namespace recollect
