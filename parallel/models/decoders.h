// The decoder families: each a row of switches for what decoder.h builds.
#pragma once

#include "parallel/models/family.h"

namespace recollect {

ModelFamily llama_family();
ModelFamily mistral_family();
ModelFamily qwen2_family();
ModelFamily qwen3_family();
ModelFamily phi3_family();
ModelFamily gpt_neox_family();
ModelFamily gemma2_family();
ModelFamily gemma3_family();

}  // namespace recollect
