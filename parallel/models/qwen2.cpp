#include "parallel/models/qwen2.h"

#include "parallel/models/llama.h"

namespace recollect {

ModelFamily qwen2_family() {
  return llama_like({.type = "qwen2",
                     .architecture = "Qwen2ForCausalLM",
                     .vocabulary = 151936,
                     .inner = 22016,
                     .key_value_heads = 32,
                     .longest = 32768,
                     .query_key_value_bias = true,
                     .window = true,
                     .window_switch = true});
}

}  // namespace recollect
