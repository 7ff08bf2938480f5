#include "parallel/models/gemma2.h"

#include <cmath>

#include "engine/core/dtype.h"
#include "engine/io/json.h"
#include "parallel/models/keys.h"
#include "parallel/models/layer_types.h"
#include "parallel/tasks/loss.h"

namespace recollect {

namespace {

ModelKey cap_key(const char* name, double otherwise, const char* of) {
  return {.name = name,
          .otherwise = otherwise,
          .low = 0,
          .help = fmt::format("{} x become cap * tanh(x / cap); 0: they do not", of)};
}

std::vector<ModelKey> gemma2_keys() {
  return {
      model_size("vocab_size", 256000, 1, kMostModelSize, "token ids are below this"),
      model_size("hidden_size", 2304, 1, kMostModelSize, "width of the residual stream", {"n_embd"}),
      model_size("intermediate_size", 9216, 1, kMostModelSize, "width of the MLP"),
      model_size("num_hidden_layers", 26, 1, kMostModelLayers, "transformer layers", {"n_layer"}),
      model_size("num_attention_heads", 8, 1, 65536, "attention heads", {"n_head"}),
      model_size("num_key_value_heads", 4, 1, 65536, "heads of keys and values, which groups of heads share"),
      model_size("head_dim", 256, 1, 65536, "size of a head, an even number"),
      model_size("max_position_embeddings", 8192, 1, kMostModelSize, "longest sequence", {"n_positions"}),
      {.name = "rope_theta",
       .otherwise = 10000.0,
       .low = 1,
       .help = "base of the rotary positions' wavelengths"},
      {.name = "query_pre_attn_scalar",
       .otherwise = 256.0,
       .low = 0,
       .low_open = true,
       .help = "scores of attention are divided by its root"},
      cap_key("attn_logit_softcapping", 50, "scores of attention"),
      cap_key("final_logit_softcapping", 30, "logits"),
      model_size(
          "sliding_window", 4096, 0, kMostModelSize,
          "of layers with a window: the last so many tokens that one attends to, its own among them; 0: all"),
      layer_types_key("the first and every other layer have a window"),
      model_norm_epsilon("rms_norm_eps", 1e-6),
      model_dropout("attention_dropout", 0.0, "dropout of attention probabilities"),
      model_init_std(),
      model_unlearnt_token(0),
      {.name = "tie_word_embeddings", .otherwise = true, .help = "the head is the token embedding"},
  };
}

// Null means no cap and no window.
void gemma2_translate(nlohmann::json& document) {
  if (const auto rope = document.find("rope_parameters"); rope != document.end() && rope->is_object()) {
    for (const char* key : {"rope_theta", "rope_type"})
      if (rope->contains(key)) document[key] = (*rope)[key];
    document.erase("rope_parameters");
  }
  for (const char* key : {"sliding_window", "attn_logit_softcapping", "final_logit_softcapping"})
    if (const auto found = document.find(key); found != document.end() && found->is_null()) *found = 0;
  if (const auto found = document.find("use_bidirectional_attention");
      found != document.end() && found->is_null())
    document.erase(found);
  translate_layer_types(document);
  translate_unlearnt_token(document);
}

ModelFacts gemma2_facts(const ModelValues& m) {
  return {.vocabulary = fact_of(m, "vocab_size"),
          .longest = fact_of(m, "max_position_embeddings"),
          .any_length = true,
          .layers = fact_of(m, "num_hidden_layers"),
          .divided = {fact_of(m, "num_attention_heads"), fact_of(m, "intermediate_size")},
          .divided_or_repeated = {fact_of(m, "num_key_value_heads")}};
}

std::vector<Finding> gemma2_check(const ModelValues& m) {
  std::vector<Finding> found;
  check_rotary_heads(m, found);
  check_layer_types(m, found);
  check_unlearnt_token(m, found);
  return found;
}

std::string gemma2_config_json(const ModelValues& m, Task, std::string_view dtype) {
  const auto or_null = [](double value) {
    return value > 0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
  };
  nlohmann::ordered_json document = {
      {"architectures", {"Gemma2ForCausalLM"}},
      {"model_type", "gemma2"},
      {"vocab_size", m.integer("vocab_size")},
      {"hidden_size", m.integer("hidden_size")},
      {"intermediate_size", m.integer("intermediate_size")},
      {"num_hidden_layers", m.integer("num_hidden_layers")},
      {"num_attention_heads", m.integer("num_attention_heads")},
      {"num_key_value_heads", m.integer("num_key_value_heads")},
      {"head_dim", m.integer("head_dim")},
      {"hidden_activation", "gelu_pytorch_tanh"},
      {"max_position_embeddings", m.integer("max_position_embeddings")},
      {"rope_theta", m.real("rope_theta")},
      {"query_pre_attn_scalar", m.real("query_pre_attn_scalar")},
      {"attn_logit_softcapping", or_null(m.real("attn_logit_softcapping"))},
      {"final_logit_softcapping", or_null(m.real("final_logit_softcapping"))},
      {"sliding_window", nullptr},
      {"layer_types", layer_types_json(m)},
      {"rms_norm_eps", m.real("rms_norm_eps")},
      {"attention_bias", false},
      {"attention_dropout", m.real("attention_dropout")},
      {"initializer_range", m.real("initializer_range")},
      {"pad_token_id", unlearnt_token_json(m)},
      {"tie_word_embeddings", m.flag("tie_word_embeddings")},
      {"torch_dtype", dtype},
  };
  // Transformers takes only whole numbers.
  if (const double scalar = m.real("query_pre_attn_scalar"); scalar == std::floor(scalar))
    document["query_pre_attn_scalar"] = static_cast<int64_t>(scalar);
  if (m.integer("sliding_window") > 0) document["sliding_window"] = m.integer("sliding_window");
  return document.dump(2) + '\n';
}

ModelValues gemma2_sketch(const ModelFamily& family, const ModelSketch& sketch) {
  ModelValues m(family.keys);
  m.set("vocab_size", sketch.vocabulary);
  m.set("max_position_embeddings", sketch.longest);
  m.set("hidden_size", sketch.width);
  m.set("intermediate_size", 4 * sketch.width);
  m.set("num_hidden_layers", sketch.layers);
  m.set("num_attention_heads", sketch.heads);
  m.set("num_key_value_heads", sketch.heads);
  m.set("head_dim", sketch.width / sketch.heads);
  m.set("attention_dropout", sketch.dropout);
  return m;
}

bool gemma2_passes_over(std::string_view name) {
  return name == "lm_head.weight" || name.ends_with(".rotary_emb.inv_freq");
}

// Rounded as in Transformers: to fp32, then to the dtype of the table.
double embedding_scale(int64_t width, DType dtype) {
  const auto scale = static_cast<float>(std::sqrt(static_cast<double>(width)));
  if (dtype == DType::kBF16) return float{bf16(scale)};
  if (dtype == DType::kF16) return float{f16(scale)};
  return scale;
}

class Gemma2Layers {
 public:
  Gemma2Layers(LayerBuilder& b, const ModelValues& m, ValueId positions)
      : b_(b),
        m_(m),
        width_(m.integer("hidden_size")),
        std_(m.real("initializer_range")),
        attention_{.heads = m.integer("num_attention_heads"),
                   .head_size = m.integer("head_dim"),
                   .kv_heads = m.integer("num_key_value_heads"),
                   .positions = positions,
                   .rotary_table = b.rotary_table(
                       "rotary", {.turned = m.integer("head_dim"), .theta = m.real("rope_theta")}, positions),
                   .dropout = m.real("attention_dropout"),
                   .score_cap = m.real("attn_logit_softcapping"),
                   .score_scale = 1 / std::sqrt(m.real("query_pre_attn_scalar"))} {}

  ValueId norm(const std::string& name, const std::string& file_name, ValueId x) const {
    return b_.norm(name, x,
                   {.kind = NormKind::kRms,
                    .weight = file_name + ".weight",
                    .epsilon = m_.real("rms_norm_eps"),
                    .beside_one = true});
  }

  ValueId layer(int64_t number, ValueId x) const {
    const std::string h = "layers." + std::to_string(number);
    b_.enter_layer(static_cast<int>(number));
    AttentionOptions attention = attention_;
    if (attends_to_window(m_, number, number % 2 == 0)) attention.window = m_.integer("sliding_window");
    ValueId a = b_.self_attention("attn", norm("attn/norm", h + ".input_layernorm", x), attention,
                                  parts(h + ".self_attn", {"q_proj", "k_proj", "v_proj"}));
    a = b_.row_linear("attn/proj", a, attention_.heads * attention_.head_size, width_,
                      linear(h + ".self_attn.o_proj"));
    a = norm("attn/post_norm", h + ".post_attention_layernorm", a);
    x = b_.residual("attn/residual", a, x, "", 0);

    b_.enter_block("mlp");
    const MlpOptions mlp{.inner = m_.integer("intermediate_size"),
                         .gated = true,
                         .gelu_gate = true,
                         .up = parts(h + ".mlp", {"gate_proj", "up_proj"}),
                         .down = linear(h + ".mlp.down_proj")};
    a = b_.mlp("mlp", norm("mlp/norm", h + ".pre_feedforward_layernorm", x), mlp);
    a = norm("mlp/post_norm", h + ".post_feedforward_layernorm", a);
    return b_.residual("mlp/residual", a, x, "", 0);
  }

 private:
  LinearOptions linear(const std::string& name) const {
    return {.weight = name + ".weight", .init_std = std_};
  }
  // A weight that is several tensors in files, one after the other.
  LinearOptions parts(const std::string& name, const std::vector<const char*>& names) const {
    LinearOptions options = linear(name);
    for (const char* part : names) options.weight_blocks.push_back(name + "." + part + ".weight");
    return options;
  }

  LayerBuilder& b_;
  const ModelValues& m_;
  int64_t width_;
  double std_;
  AttentionOptions attention_;
};

Model build_gemma2(Graph& graph, const OpRegistry& registry, const ModelValues& m, const TaskSettings& task,
                   const BatchShape& batch, ParallelLayout layout, DType dtype) {
  LayerBuilder b(graph, registry, layout, dtype, batch);
  Model model = begin_model(b, task,
                            {.prefix = "model.",
                             .has_prefix = [](std::string_view name) { return name != "lm_head.weight"; },
                             .passed_over = gemma2_passes_over,
                             .tied = {}});
  if (m.flag("tie_word_embeddings")) model.files.tied = {{"lm_head.weight", "embed_tokens.weight"}};
  const int64_t vocabulary = m.integer("vocab_size"), width = m.integer("hidden_size");
  const double std = m.real("initializer_range");
  const Gemma2Layers layers(b, m, positions_of(model, task));
  const ValueId words = b.vocabulary_table("embed_tokens.weight", vocabulary, width, std);
  ValueId x =
      b.vocabulary_embedding("embedding/tokens", model.input("ids"), words, m.integer("pad_token_id"));
  x = b.scaled("embedding/scaled", x, embedding_scale(width, dtype));
  for (int64_t layer = 0; layer < m.integer("num_hidden_layers"); ++layer) x = layers.layer(layer, x);
  b.enter_layer(-1);
  x = layers.norm("final/norm", "norm", x);
  const ValueId head = m.flag("tie_word_embeddings") ? words
                                                     : b.vocabulary_table("lm_head.weight", vocabulary, width,
                                                                          std, /*may_be_missing=*/true);
  model.logits = b.vocabulary_head("final/head", x, head, model,
                                   {.vocabulary = vocabulary,
                                    .logit_cap = m.real("final_logit_softcapping"),
                                    .most_logits = batch.most_logits});
  model.parameters = b.parameters();
  return model;
}

}  // namespace

ModelFamily gemma2_family() {
  return {.type = "gemma2",
          .tasks = {Task::kCausalLm},
          .adapted = {"q_proj", "v_proj"},
          .keys = gemma2_keys(),
          .fixed = {{"hidden_activation", std::string("gelu_pytorch_tanh")},
                    {"attention_bias", false},
                    {"use_bidirectional_attention", false},
                    {"rope_type", std::string("default")},
                    {"is_causal", true}},
          .translate = gemma2_translate,
          .facts = gemma2_facts,
          .complete = [](ModelValues&) { return std::vector<CompletedValue>(); },
          .check = gemma2_check,
          .config_json = gemma2_config_json,
          .sketch = gemma2_sketch,
          .build = build_gemma2};
}

}  // namespace recollect
