#include "parallel/models/mistral.h"

#include "parallel/models/llama.h"

namespace recollect {

ModelFamily mistral_family() {
  return llama_like({.type = "mistral",
                     .architecture = "MistralForCausalLM",
                     .vocabulary = 32000,
                     .inner = 14336,
                     .key_value_heads = 8,
                     .longest = 4096 * 32,
                     .window = true});
}

}  // namespace recollect
