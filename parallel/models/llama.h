// Llama (Touvron et al., 2023) with the semantics of Hugging Face's LlamaForCausalLM: RMS norms, rotary
// positions, SwiGLU, key/value heads that groups of query heads share, no positions in a table. Families that
// differ by switches are variants of it, each in a file of its own.
#pragma once

#include "parallel/models/family.h"
#include "parallel/models/rope.h"

namespace recollect {

// What a family of the kind has of its own.
struct LlamaVariant {
  std::string_view type, architecture;
  // Defaults of its config.json.
  int64_t vocabulary, inner, key_value_heads, longest;  // key_value_heads 0: as many as heads
  int64_t hidden = 4096;
  double norm_epsilon = 1e-6;
  int64_t head_size = 0;  // 0: hidden_size / num_attention_heads
  // Biases: by keys attention_bias and mlp_bias, or of queries, keys and values always.
  bool attention_bias_key = false, mlp_bias_key = false, query_key_value_bias = false;
  bool head_norms = false;  // RMS norms of each query head and key head
  RopeKeys rope = {};
  // In files queries, keys and values are one tensor; gate and up are another.
  bool fused_in_files = false;
  bool residual_dropout = false;  // by key resid_pdrop
  int64_t window_by_default = 4096;
  int64_t unlearnt_token = -1;  // used if no pad_token_id is given
  std::vector<std::string> adapted = {"q_proj", "v_proj"};
  // Attention to a window of tokens: by key sliding_window, with a switch use_sliding_window or without.
  bool window = false, window_switch = false;
};

ModelFamily llama_like(const LlamaVariant& variant);

ModelFamily llama_family();

}  // namespace recollect
