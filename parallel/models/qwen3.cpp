#include "parallel/models/qwen3.h"

#include "parallel/models/llama.h"

namespace recollect {

ModelFamily qwen3_family() {
  return llama_like({.type = "qwen3",
                     .architecture = "Qwen3ForCausalLM",
                     .vocabulary = 151936,
                     .inner = 22016,
                     .key_value_heads = 32,
                     .longest = 32768,
                     .head_size = 128,
                     .attention_bias_key = true,
                     .head_norms = true,
                     .window = true,
                     .window_switch = true});
}

}  // namespace recollect
