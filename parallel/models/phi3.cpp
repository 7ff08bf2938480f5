#include "parallel/models/phi3.h"

#include "parallel/models/llama.h"

namespace recollect {

ModelFamily phi3_family() {
  ModelFamily family = llama_like(
      {.type = "phi3",
       .architecture = "Phi3ForCausalLM",
       .vocabulary = 32064,
       .inner = 8192,
       .key_value_heads = 0,
       .longest = 4096,
       .hidden = 3072,
       .norm_epsilon = 1e-5,
       .rope = {.part = "partial_rotary_factor", .earlier_length = 4096, .types = {"default", "longrope"}},
       .fused_in_files = true,
       .residual_dropout = true,
       .window_by_default = 0,
       .unlearnt_token = 32000,
       .adapted = {"qkv_proj"},
       .window = true});
  family.kept.push_back("embd_pdrop");
  return family;
}

}  // namespace recollect
