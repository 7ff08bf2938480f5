#include "parallel/models/decoders.h"

#include "parallel/models/decoder.h"
#include "parallel/models/keys.h"

namespace recollect {

namespace {

ModelKey attention_bias_key() {
  return {.name = "attention_bias", .otherwise = false, .help = "biases in attention's four projections"};
}

ModelKey cap_key(const char* name, double otherwise, const char* of) {
  return {.name = name,
          .otherwise = otherwise,
          .low = 0,
          .help = fmt::format("{} x become cap * tanh(x / cap); 0: they do not", of)};
}

ModelKey query_scalar_key() {
  return {.name = "query_pre_attn_scalar",
          .otherwise = 256.0,
          .low = 0,
          .low_open = true,
          .help = "scores of attention are divided by its root"};
}

// Buffers of old files, and the head if it is tied.
bool neox_passes_over(std::string_view name) {
  return name == "embed_out.weight" || name.ends_with(".attention.bias") ||
         name.ends_with(".attention.masked_bias") || name.ends_with(".rotary_emb.inv_freq");
}

// A model of text and images has its text model under a name of its own.
bool gemma3_passes_over(std::string_view name) {
  return DecoderNames().passed_over(name) || name == "language_model.lm_head.weight" ||
         name.starts_with("vision_tower.") || name.starts_with("multi_modal_projector.");
}
std::string in_whole_gemma3(std::string_view name) {
  return (name == "lm_head.weight" ? "language_model." : "language_model.model.") + std::string(name);
}

}  // namespace

// LLaMA (Touvron et al., 2023) to Llama 3.3, with the semantics of LlamaForCausalLM: RMS norms, rotary positions,
// SwiGLU, key/value heads that groups of query heads share.
ModelFamily llama_family() {
  return decoder_family(
      {.type = "llama",
       .architecture = "LlamaForCausalLM",
       .sizes = {32000, 4096, 11008, 32, 32, 0, 0, 2048},
       .more_keys = {
           attention_bias_key(),
           {.name = "mlp_bias", .otherwise = false, .help = "biases in the MLP's three projections"}}});
}

// Mistral 7B (Jiang et al., 2023), as MistralForCausalLM: a Llama whose attention has a window.
ModelFamily mistral_family() {
  return decoder_family({.type = "mistral",
                         .architecture = "MistralForCausalLM",
                         .sizes = {32000, 4096, 14336, 32, 32, 8, 0, 4096 * 32},
                         .windows = Windows::kAllLayers});
}

// Qwen2 (Yang et al., 2024), as Qwen2ForCausalLM: a Llama with biases of queries, keys and values.
ModelFamily qwen2_family() {
  return decoder_family({.type = "qwen2",
                         .architecture = "Qwen2ForCausalLM",
                         .sizes = {151936, 4096, 22016, 32, 32, 32, 0, 32768},
                         .query_key_value_bias = true,
                         .windows = Windows::kSwitched,
                         .kept = {}});
}

// Qwen3 (Yang et al., 2025), dense models, as Qwen3ForCausalLM: a Llama with its own head size and RMS norms of
// each query head and key head.
ModelFamily qwen3_family() {
  return decoder_family({.type = "qwen3",
                         .architecture = "Qwen3ForCausalLM",
                         .sizes = {151936, 4096, 22016, 32, 32, 32, 128, 32768},
                         .more_keys = {attention_bias_key()},
                         .head_norms = true,
                         .windows = Windows::kSwitched,
                         .kept = {}});
}

// Phi-3 and Phi-4 (Abdin et al., 2024), as Phi3ForCausalLM: a Llama whose files hold queries, keys and values as
// one tensor and gate and up as another; only a part of each head may be rotated.
ModelFamily phi3_family() {
  return decoder_family(
      {.type = "phi3",
       .architecture = "Phi3ForCausalLM",
       .sizes = {32064, 3072, 8192, 32, 32, 0, 0, 4096},
       .more_keys = {model_dropout("resid_pdrop", 0.0, "dropout before each residual addition")},
       .adapted = {"qkv_proj"},
       .unlearnt_token = 32000,
       .norm_epsilon = 1e-5,
       .windows = Windows::kAllLayers,
       .window = 0,
       .rope = {.part = "partial_rotary_factor", .earlier_length = 4096, .types = {"default", "longrope"}},
       .names = {.query_key_value = "qkv_proj", .mlp_in = "gate_up_proj"},
       .kept = {"max_window_layers", "layer_types", "embd_pdrop"}});
}

// GPT-NeoX and Pythia (Black et al., 2022; Biderman et al., 2023), as GPTNeoXForCausalLM: layer norms, rotary
// positions on a part of each head, attention and MLP in parallel, an untied head.
ModelFamily gpt_neox_family() {
  return decoder_family(
      {.type = "gpt_neox",
       .architecture = "GPTNeoXForCausalLM",
       .sizes = {50432, 6144, 24576, 44, 64, 0, 0, 2048},
       .more_keys = {{.name = "hidden_act",
                      .otherwise = std::string("gelu"),
                      .choices = {"gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh"},
                      .help = "of the MLP; gelu: erf form, the others: tanh form"},
                     {.name = "use_parallel_residual",
                      .otherwise = true,
                      .help = "the MLP reads what attention reads; false: what attention has added to"},
                     {.name = "attention_bias",
                      .otherwise = true,
                      .help = "biases in attention's projections"},
                     model_dropout("hidden_dropout", 0.0,
                                   "dropout after the embeddings and before each residual addition")},
       .adapted = {"query_key_value"},
       .norm_epsilon = 1e-5,
       .layer_norms = true,
       .shared_heads = false,
       .interleaved = true,
       .mlp_biases = true,
       .gate = "",
       .rope = {.theta = "rotary_emb_base", .part = "rotary_pct", .part_by_default = 0.25},
       .names = {.prefix = "gpt_neox.",
                 .tokens = "embed_in",
                 .head = "embed_out",
                 .final_norm = "final_layer_norm",
                 .attention = "attention",
                 .query_key_value = "query_key_value",
                 .attention_out = "dense",
                 .mlp_in = "dense_h_to_4h",
                 .mlp_out = "dense_4h_to_h",
                 .passed_over = neox_passes_over},
       .written = {{"bos_token_id", nullptr}, {"eos_token_id", nullptr}},
       .kept = {"classifier_dropout"}});
}

// Gemma 2 (Gemma Team, 2024), as Gemma2ForCausalLM: RMS norms before and after attention and MLP, with one added to
// their weights; GELU gates; scaled embeddings; capped scores and logits; a window in every other layer.
ModelFamily gemma2_family() {
  return decoder_family(
      {.type = "gemma2",
       .architecture = "Gemma2ForCausalLM",
       .sizes = {256000, 2304, 9216, 26, 8, 4, 256, 8192},
       .more_keys = {query_scalar_key(), cap_key("attn_logit_softcapping", 50, "scores of attention"),
                     cap_key("final_logit_softcapping", 30, "logits")},
       .tied = true,
       .unlearnt_token = 0,
       .norms_beside_one = true,
       .norms_after = true,
       .gate = "gelu_pytorch_tanh",
       .gate_key = "hidden_activation",
       .scaled_embeddings = true,
       .windows = Windows::kPattern,
       .window_pattern = 2,
       .fixed = {{"attention_bias", false}, {"use_bidirectional_attention", false}},
       .written = {{"attention_bias", false}},
       .kept = {}});
}

// Gemma 3 (Gemma Team, 2025), the text model, as Gemma3ForCausalLM: a Gemma 2 with norms of each query head and key
// head, two kinds of rotary positions, and a window in all layers but every sixth. Transformers reads
// attn_logit_softcapping and computes without it.
ModelFamily gemma3_family() {
  return decoder_family({.type = "gemma3_text",
                         .architecture = "Gemma3ForCausalLM",
                         .sizes = {262208, 2304, 9216, 26, 8, 4, 256, 131072},
                         .more_keys = {query_scalar_key(), cap_key("final_logit_softcapping", 0, "logits")},
                         .tied = true,
                         .unlearnt_token = 0,
                         .norms_beside_one = true,
                         .norms_after = true,
                         .head_norms = true,
                         .gate = "gelu_pytorch_tanh",
                         .gate_key = "hidden_activation",
                         .scaled_embeddings = true,
                         .windows = Windows::kPattern,
                         .window_pattern = 6,
                         .rope = {.theta_by_default = 1e6, .where = " in layers without a window"},
                         .local_rope = RopeKeys{.section = "local_rope_scaling",
                                                .theta = "rope_local_base_freq",
                                                .where = " in layers with one"},
                         .names = {.passed_over = gemma3_passes_over, .older = in_whole_gemma3},
                         .whole = "gemma3",
                         .fixed = {{"attention_bias", false},
                                   {"use_bidirectional_attention", false},
                                   {"attn_logit_softcapping", 0.0}},
                         .written = {{"attention_bias", false}},
                         .kept = {}});
}

}  // namespace recollect
