// Llama (Touvron et al., 2023) with the semantics of Hugging Face's LlamaForCausalLM: RMS norms, rotary
// positions, SwiGLU, key/value heads that groups of query heads share, no positions in a table. Families that
// differ in defaults and biases alone are variants of it, each in a file of its own.
#pragma once

#include "parallel/models/family.h"

namespace recollect {

// What a family of the kind has of its own.
struct LlamaVariant {
  std::string_view type, architecture;
  // Defaults of its config.json.
  int64_t vocabulary, inner, key_value_heads, longest;  // key_value_heads 0: as many as heads
  double norm_epsilon = 1e-6;
  // Biases: by keys attention_bias and mlp_bias, or of queries, keys and values always.
  bool bias_keys = false, query_key_value_bias = false;
  // Attention to a window of tokens: by key sliding_window, with a switch use_sliding_window or without.
  bool window = false, window_switch = false;
};

ModelFamily llama_like(const LlamaVariant& variant);

ModelFamily llama_family();

}  // namespace recollect
