#include "parallel/models/llama.h"

#include <algorithm>

#include "engine/io/json.h"
#include "parallel/models/keys.h"
#include "parallel/models/layer_types.h"
#include "parallel/tasks/loss.h"

namespace recollect {

namespace {

std::vector<ModelKey> keys_of(const LlamaVariant& v) {
  std::vector<ModelKey> keys = {
      model_size("vocab_size", v.vocabulary, 1, kMostModelSize, "token ids are below this"),
      model_size("hidden_size", v.hidden, 1, kMostModelSize, "width of the residual stream", {"n_embd"}),
      model_size("intermediate_size", v.inner, 1, kMostModelSize, "width of the MLP"),
      model_size("num_hidden_layers", 32, 1, kMostModelLayers, "transformer layers", {"n_layer"}),
      model_size("num_attention_heads", 32, 1, 65536, "attention heads", {"n_head"}),
      model_size("num_key_value_heads", v.key_value_heads, 0, 65536,
                 "heads of keys and values, which groups of heads share; 0: num_attention_heads"),
      model_size("head_dim", v.head_size, 0, 65536,
                 "size of a head, an even number; 0: hidden_size / num_attention_heads"),
      model_size("max_position_embeddings", v.longest, 1, kMostModelSize, "longest sequence",
                 {"n_positions"}),
      model_norm_epsilon("rms_norm_eps", v.norm_epsilon),
      model_dropout("attention_dropout", 0.0, "dropout of attention probabilities"),
      model_init_std(),
      model_unlearnt_token(v.unlearnt_token),
      {.name = "tie_word_embeddings", .otherwise = false, .help = "the head is the token embedding"},
  };
  if (v.residual_dropout)
    keys.push_back(model_dropout("resid_pdrop", 0.0, "dropout before each residual addition"));
  if (v.attention_bias_key)
    keys.push_back(
        {.name = "attention_bias", .otherwise = false, .help = "biases in attention's four projections"});
  if (v.mlp_bias_key)
    keys.push_back({.name = "mlp_bias", .otherwise = false, .help = "biases in the MLP's three projections"});
  if (v.window_switch)
    keys.push_back(
        {.name = "use_sliding_window", .otherwise = false, .help = "attention to a window of tokens"});
  if (v.window_switch)
    keys.push_back(model_size("max_window_layers", 28, 0, kMostModelSize,
                              "layers below this attend to all tokens before, those from it on to a window"));
  if (v.window_switch) keys.push_back(layer_types_key("max_window_layers says it"));
  if (v.window)
    keys.push_back(model_size("sliding_window", v.window_by_default, 0, kMostModelSize,
                              "the last so many tokens that one attends to, its own among them; 0: all"));
  add_rope_keys(v.rope, keys);
  return keys;
}

// Null is no window, and as many key/value heads as heads.
void llama_translate(const LlamaVariant& v, nlohmann::json& document) {
  translate_rope(v.rope, document);
  if (v.window_switch) translate_layer_types(document);
  for (const char* key : {"sliding_window", "num_key_value_heads"})
    if (const auto found = document.find(key); found != document.end() && found->is_null()) *found = 0;
  translate_unlearnt_token(document);
}

// 0: the layer has no window.
int64_t window_of_layer(const LlamaVariant& v, const ModelValues& m, int64_t layer) {
  if (!v.window || (v.window_switch && !m.flag("use_sliding_window"))) return 0;
  const bool windowed =
      !v.window_switch || attends_to_window(m, layer, layer >= m.integer("max_window_layers"));
  return windowed ? m.integer("sliding_window") : 0;
}

bool has_windowed_layers(const LlamaVariant& v, const ModelValues& m) {
  for (int64_t layer = 0; layer < m.integer("num_hidden_layers"); ++layer)
    if (window_of_layer(v, m, layer) > 0) return true;
  return false;
}

ModelFacts facts_of(const LlamaVariant& v, const ModelValues& m) {
  ModelFacts facts{.vocabulary = fact_of(m, "vocab_size"),
                   .longest = longest_by_rope(m),
                   .any_length = true,
                   .layers = fact_of(m, "num_hidden_layers"),
                   .divided = {fact_of(m, "num_attention_heads"), fact_of(m, "intermediate_size")},
                   .shares_head_weights = v.head_norms,
                   .cache_ends = cache_ends_by_rope(v.rope, m)};
  (v.fused_in_files ? facts.divided : facts.divided_or_repeated).push_back(fact_of(m, "num_key_value_heads"));
  return facts;
}

std::vector<CompletedValue> complete_values(const LlamaVariant& v, ModelValues& m) {
  std::vector<CompletedValue> completed;
  const auto open = [&](const char* key, int64_t value, const char* from) {
    if (m.integer(key) != 0) return;
    m.set(key, value);
    completed.push_back({key, from});
  };
  const int64_t heads = m.integer("num_attention_heads");
  open("num_key_value_heads", heads, "model.num_attention_heads");
  open("head_dim", m.integer("hidden_size") / heads, "model.hidden_size / model.num_attention_heads");
  complete_rope(v.rope, m, completed);
  return completed;
}

std::vector<UnusedModelKeys> unused_keys(const LlamaVariant& v) {
  std::vector<UnusedModelKeys> unused = unused_rope_keys(v.rope);
  if (v.window_switch)
    unused.push_back(
        {{"sliding_window"},
         "max_window_layers",
         [v](const ModelValues& m) { return m.flag("use_sliding_window") && !has_windowed_layers(v, m); },
         "no layer of the model has a window"});
  if (v.window_switch)
    unused.push_back({{"sliding_window", "max_window_layers", "layer_types"},
                      "use_sliding_window",
                      [](const ModelValues& m) { return !m.flag("use_sliding_window"); },
                      "attention has no window"});
  return unused;
}

std::vector<Finding> check_values(const LlamaVariant& v, const ModelValues& m) {
  std::vector<Finding> found;
  const int64_t heads = m.integer("num_attention_heads"), size = m.integer("head_dim");
  if (size * heads != m.integer("hidden_size") && size == m.integer("hidden_size") / heads)
    check_heads(m, "hidden_size", "num_attention_heads", found);
  check_rotary_heads(m, found);
  check_unlearnt_token(m, found);
  if (v.window_switch) check_layer_types(m, found);
  check_rope(v.rope, m, size, found);
  return found;
}

std::vector<std::pair<std::string, ModelValue>> fixed_of(const LlamaVariant& v) {
  std::vector<std::pair<std::string, ModelValue>> fixed{{"hidden_act", std::string("silu")},
                                                        {"is_causal", true}};
  if (!v.rope.part) fixed.emplace_back("partial_rotary_factor", 1.0);
  return fixed;
}

std::string config_json_of(const LlamaVariant& v, const ModelValues& m, std::string_view dtype) {
  nlohmann::ordered_json document = {
      {"architectures", {v.architecture}},
      {"model_type", v.type},
      {"vocab_size", m.integer("vocab_size")},
      {"hidden_size", m.integer("hidden_size")},
      {"intermediate_size", m.integer("intermediate_size")},
      {"num_hidden_layers", m.integer("num_hidden_layers")},
      {"num_attention_heads", m.integer("num_attention_heads")},
      {"num_key_value_heads", m.integer("num_key_value_heads")},
      {"head_dim", m.integer("head_dim")},
      {"hidden_act", "silu"},
      {"max_position_embeddings", m.integer("max_position_embeddings")},
      {"rms_norm_eps", m.real("rms_norm_eps")},
      {"attention_dropout", m.real("attention_dropout")},
      {"initializer_range", m.real("initializer_range")},
      {"pad_token_id", unlearnt_token_json(m)},
      {"tie_word_embeddings", m.flag("tie_word_embeddings")},
      {"torch_dtype", dtype},
  };
  write_rope(v.rope, m, document);
  if (v.residual_dropout) document["resid_pdrop"] = m.real("resid_pdrop");
  if (v.attention_bias_key) document["attention_bias"] = m.flag("attention_bias");
  if (v.mlp_bias_key) document["mlp_bias"] = m.flag("mlp_bias");
  if (v.window_switch) document["use_sliding_window"] = m.flag("use_sliding_window");
  if (v.window_switch) document["max_window_layers"] = m.integer("max_window_layers");
  if (v.window_switch) document["layer_types"] = layer_types_json(m);
  if (v.window)
    document["sliding_window"] =
        m.integer("sliding_window") > 0 ? nlohmann::ordered_json(m.integer("sliding_window")) : nullptr;
  return document.dump(2) + '\n';
}

ModelValues sketch_of(const ModelFamily& family, const ModelSketch& sketch) {
  ModelValues m(family.keys);
  m.set("vocab_size", sketch.vocabulary);
  m.set("max_position_embeddings", sketch.longest);
  m.set("hidden_size", sketch.width);
  m.set("intermediate_size", 4 * sketch.width);
  m.set("num_hidden_layers", sketch.layers);
  m.set("num_attention_heads", sketch.heads);
  m.set("num_key_value_heads", int64_t{0});
  m.set("head_dim", int64_t{0});
  m.set("attention_dropout", sketch.dropout);
  if (m.integer("pad_token_id") >= sketch.vocabulary) m.set("pad_token_id", int64_t{-1});
  return m;
}

// A buffer of old files, and a tied head.
bool llama_passes_over(std::string_view name) {
  return name == "lm_head.weight" || name.ends_with(".rotary_emb.inv_freq");
}

class LlamaLayers {
 public:
  LlamaLayers(LayerBuilder& b, const LlamaVariant& variant, const ModelValues& m, ValueId positions)
      : b_(b),
        variant_(variant),
        m_(m),
        width_(m.integer("hidden_size")),
        std_(m.real("initializer_range")),
        all_biases_(variant.attention_bias_key && m.flag("attention_bias")),
        input_biases_(all_biases_ || variant.query_key_value_bias),
        mlp_biases_(variant.mlp_bias_key && m.flag("mlp_bias")),
        head_norms_(variant.head_norms),
        fused_(variant.fused_in_files),
        dropout_(variant.residual_dropout ? m.real("resid_pdrop") : 0),
        attention_{.heads = m.integer("num_attention_heads"),
                   .head_size = m.integer("head_dim"),
                   .kv_heads = m.integer("num_key_value_heads"),
                   .positions = positions,
                   .rotary_table = b.rotary_table(
                       "rotary", rotary_options(variant.rope, m, m.integer("head_dim")), positions),
                   .norm_epsilon = m.real("rms_norm_eps"),
                   .dropout = m.real("attention_dropout")} {}

  ValueId norm(const std::string& name, const std::string& file_name, ValueId x) const {
    return b_.norm(
        name, x,
        {.kind = NormKind::kRms, .weight = file_name + ".weight", .epsilon = m_.real("rms_norm_eps")});
  }

  ValueId layer(int64_t number, ValueId x) const {
    const std::string h = "layers." + std::to_string(number);
    b_.enter_layer(static_cast<int>(number));
    const LinearOptions projection = linear(h + ".self_attn.o_proj", all_biases_);
    AttentionOptions attention = attention_;
    attention.window = window_of_layer(variant_, m_, number);
    if (head_norms_) {
      attention.query_norm = h + ".self_attn.q_norm.weight";
      attention.key_norm = h + ".self_attn.k_norm.weight";
    }
    ValueId a =
        b_.self_attention("attn", norm("attn/norm", h + ".input_layernorm", x), attention,
                          parts(h + ".self_attn", {"q_proj", "k_proj", "v_proj"}, "qkv_proj", input_biases_));
    a = b_.row_linear("attn/proj", a, attention_.heads * attention_.head_size, width_, projection);
    x = b_.residual("attn/residual", a, x, projection.bias, dropout_);

    b_.enter_block("mlp");
    const MlpOptions mlp{.inner = m_.integer("intermediate_size"),
                         .gated = true,
                         .up = parts(h + ".mlp", {"gate_proj", "up_proj"}, "gate_up_proj", mlp_biases_),
                         .down = linear(h + ".mlp.down_proj", mlp_biases_)};
    a = b_.mlp("mlp", norm("mlp/norm", h + ".post_attention_layernorm", x), mlp);
    return b_.residual("mlp/residual", a, x, mlp.down.bias, dropout_);
  }

 private:
  LinearOptions linear(const std::string& name, bool bias) const {
    return {.weight = name + ".weight", .bias = bias ? name + ".bias" : "", .init_std = std_};
  }
  // A weight that is several tensors in files, one after the other, or the single tensor `fused`.
  LinearOptions parts(const std::string& name, const std::vector<const char*>& names, const char* fused,
                      bool bias) const {
    if (fused_) return linear(name + "." + fused, bias);
    LinearOptions options = linear(name, bias);
    for (const char* part : names) {
      options.weight_blocks.push_back(name + "." + part + ".weight");
      if (bias) options.bias_blocks.push_back(name + "." + part + ".bias");
    }
    return options;
  }

  LayerBuilder& b_;
  const LlamaVariant& variant_;
  const ModelValues& m_;
  int64_t width_;
  double std_;
  bool all_biases_, input_biases_, mlp_biases_, head_norms_, fused_;
  double dropout_;
  AttentionOptions attention_;
};

Model build_llama(const LlamaVariant& variant, Graph& graph, const OpRegistry& registry, const ModelValues& m,
                  const TaskSettings& task, const BatchShape& batch, ParallelLayout layout, DType dtype) {
  LayerBuilder b(graph, registry, layout, dtype, batch);
  Model model = begin_model(b, task,
                            {.prefix = "model.",
                             .has_prefix = [](std::string_view name) { return name != "lm_head.weight"; },
                             .passed_over = llama_passes_over,
                             .tied = {}});
  if (m.flag("tie_word_embeddings")) model.files.tied = {{"lm_head.weight", "embed_tokens.weight"}};
  const int64_t vocabulary = m.integer("vocab_size"), width = m.integer("hidden_size");
  const double std = m.real("initializer_range");
  const LlamaLayers layers(b, variant, m, positions_of(model, task));
  if (b.length() != kNone) model.inputs["length"] = b.length();
  const ValueId words = b.vocabulary_table("embed_tokens.weight", vocabulary, width, std);
  ValueId x =
      b.vocabulary_embedding("embedding/tokens", model.input("ids"), words, m.integer("pad_token_id"));
  for (int64_t layer = 0; layer < m.integer("num_hidden_layers"); ++layer) x = layers.layer(layer, x);
  b.enter_layer(-1);
  x = layers.norm("final/norm", "norm", x);
  const ValueId head = m.flag("tie_word_embeddings") ? words
                                                     : b.vocabulary_table("lm_head.weight", vocabulary, width,
                                                                          std, /*may_be_missing=*/true);
  model.logits = b.vocabulary_head("final/head", x, head, model,
                                   {.vocabulary = vocabulary, .most_logits = batch.most_logits});
  model.parameters = b.parameters();
  return model;
}

}  // namespace

ModelFamily llama_like(const LlamaVariant& v) {
  return {
      .type = v.type,
      .tasks = {Task::kCausalLm},
      .adapted = v.adapted,
      .keys = keys_of(v),
      .sections = {rope_section()},
      .unused = unused_keys(v),
      .fixed = fixed_of(v),
      .kept = v.window_switch ? std::vector<std::string_view>{}
                              : std::vector<std::string_view>{"max_window_layers", "layer_types"},
      .translate = [v](nlohmann::json& document) { llama_translate(v, document); },
      .facts = [v](const ModelValues& m) { return facts_of(v, m); },
      .complete = [v](ModelValues& m) { return complete_values(v, m); },
      .check = [v](const ModelValues& m) { return check_values(v, m); },
      .config_json = [v](const ModelValues& m, Task,
                         std::string_view dtype) { return config_json_of(v, m, dtype); },
      .sketch = sketch_of,
      .build = [v](Graph& graph, const OpRegistry& registry, const ModelValues& m, const TaskSettings& task,
                   const BatchShape& batch, ParallelLayout layout,
                   DType dtype) { return build_llama(v, graph, registry, m, task, batch, layout, dtype); }};
}

ModelFamily llama_family() {
  return llama_like({.type = "llama",
                     .architecture = "LlamaForCausalLM",
                     .vocabulary = 32000,
                     .inner = 11008,
                     .key_value_heads = 0,
                     .longest = 2048,
                     .attention_bias_key = true,
                     .mlp_bias_key = true});
}

}  // namespace recollect
