// Decoders as rows of one table: layers that normalise, attend with rotary positions and add, then normalise, multiply
// and add. What a family has of its own is a switch, a default, a name of a tensor, or a key of its own: the builder
// asks for a value by its key, and a family without the key is without the thing.
#pragma once

#include <optional>

#include "engine/io/json.h"
#include "parallel/models/family.h"
#include "parallel/models/rope.h"

namespace recollect {

// Defaults of a family's config.json. key_value_heads 0: as many as heads; head_size 0: hidden / heads.
struct DecoderSizes {
  int64_t vocabulary, hidden, inner, layers, heads, key_value_heads, head_size, longest;
};

// Which layers attend to a window of sliding_window tokens.
enum class Windows {
  kNone,
  kAllLayers,
  kSwitched,  // if use_sliding_window: those of layer_types, or from max_window_layers on
  kPattern,   // those of layer_types, or all but every so many-th
};

// Of tensors in files. Null: queries, keys and values are tensors of their own, as gate and up are.
struct DecoderNames {
  const char *prefix = "model.", *tokens = "embed_tokens", *head = "lm_head", *final_norm = "norm";
  const char *attention = "self_attn", *query_key_value = nullptr, *attention_out = "o_proj";
  const char *mlp_in = nullptr, *mlp_out = "down_proj";
  // As in FileNames: a tied head, and a buffer of old files.
  bool (*passed_over)(std::string_view) = [](std::string_view name) {
    return name == "lm_head.weight" || name.ends_with(".rotary_emb.inv_freq");
  };
  std::string (*older)(std::string_view) = [](std::string_view) { return std::string(); };
};

struct DecoderFamily {
  std::string_view type, architecture;
  DecoderSizes sizes;
  std::vector<ModelKey> more_keys = {};
  std::vector<std::string> adapted = {"q_proj", "v_proj"};
  bool tied = false;            // by default
  int64_t unlearnt_token = -1;  // if no pad_token_id is given
  double norm_epsilon = 1e-6;

  // Layer norms with biases, key layer_norm_eps; else RMS norms.
  bool layer_norms = false;
  bool norms_beside_one = false;  // one is added to their weights
  bool norms_after = false;       // attention and MLP have a norm after them too
  bool head_norms = false;        // RMS norms of each query head and key head
  // Heads may share key/value heads and have a size of their own: keys num_key_value_heads, head_dim. Such a
  // family has pad_token_id too.
  bool shared_heads = true;
  bool interleaved = false;           // in files, query, key and value of one head after the other
  bool query_key_value_bias = false;  // always; key attention_bias: of all four projections
  bool mlp_biases = false;            // always; or by key mlp_bias
  // The gate's activation, and the key that says it. "": there is no gate, and key hidden_act has a form of GELU.
  std::string_view gate = "silu", gate_key = "hidden_act";
  bool scaled_embeddings = false;  // by the root of their width
  Windows windows = Windows::kNone;
  int64_t window = 4096;       // by default
  int64_t window_pattern = 0;  // every so many-th layer has no window
  RopeKeys rope = {};
  std::optional<RopeKeys> local_rope = {};  // of layers with a window; none: as all

  DecoderNames names = {};
  std::string_view whole = {};                                       // as in ModelFamily
  std::vector<std::pair<std::string, ModelValue>> fixed = {};        // beside those of all decoders
  std::vector<std::pair<std::string, nlohmann::json>> written = {};  // in config.json, whatever the values
  std::vector<std::string_view> kept = {"max_window_layers", "layer_types"};  // of those without such keys
};

// decoder_keys.cpp: the keys, what follows from them, and config.json.
ModelFamily decoder_family(const DecoderFamily& family);

bool has_window(const DecoderFamily& family, const ModelValues& m, int64_t layer);
int64_t decoder_head_size(const DecoderFamily& family, const ModelValues& m);

// The value, or that of a family without the key.
inline double real_or(const ModelValues& m, std::string_view key, double otherwise) {
  return m.has(key) ? m.real(key) : otherwise;
}
inline bool flag_or(const ModelValues& m, std::string_view key, bool otherwise) {
  return m.has(key) ? m.flag(key) : otherwise;
}

// decoder.cpp: ModelFamily::build.
Model build_decoder(const DecoderFamily& family, Graph& graph, const OpRegistry& registry,
                    const ModelValues& m, const TaskSettings& task, const BatchShape& batch,
                    ParallelLayout layout, DType dtype);

}  // namespace recollect
