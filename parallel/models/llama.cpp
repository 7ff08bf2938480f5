#include "parallel/models/llama.h"

#include <algorithm>

#include "engine/io/json.h"
#include "parallel/models/keys.h"
#include "parallel/tasks/loss.h"

namespace recollect {

namespace {

std::vector<ModelKey> rope_scaling_keys() {
  return {
      {.name = "rope_scaling.rope_type",
       .aliases = {"type"},
       .otherwise = std::string("default"),
       .choices = {"default", "linear", "llama3"},
       .help = "default: none"},
      {.name = "rope_scaling.factor",
       .otherwise = 0.0,
       .low = 0,
       .help = "linear, llama3, which need it: positions are divided by it, at least 1"},
      {.name = "rope_scaling.low_freq_factor",
       .otherwise = 1.0,
       .low = 0,
       .low_open = true,
       .help = "llama3: waves longer than original_max_position_embeddings / this are scaled"},
      {.name = "rope_scaling.high_freq_factor",
       .otherwise = 4.0,
       .low = 0,
       .low_open = true,
       .help = "llama3: waves shorter than original_max_position_embeddings / this are not"},
      model_size("rope_scaling.original_max_position_embeddings", 0, 0, kMostModelSize,
                 "llama3: the longest sequence of the model before; 0: model.max_position_embeddings"),
  };
}

std::vector<ModelKey> keys_of(const LlamaVariant& v) {
  std::vector<ModelKey> keys = {
      model_size("vocab_size", v.vocabulary, 1, kMostModelSize, "token ids are below this"),
      model_size("hidden_size", 4096, 1, kMostModelSize, "width of the residual stream", {"n_embd"}),
      model_size("intermediate_size", v.inner, 1, kMostModelSize, "width of the MLP"),
      model_size("num_hidden_layers", 32, 1, kMostModelLayers, "transformer layers", {"n_layer"}),
      model_size("num_attention_heads", 32, 1, 65536, "attention heads", {"n_head"}),
      model_size("num_key_value_heads", v.key_value_heads, 0, 65536,
                 "heads of keys and values, which groups of heads share; 0: num_attention_heads"),
      model_size("head_dim", 0, 0, 65536,
                 "size of a head, an even number; 0: hidden_size / num_attention_heads"),
      model_size("max_position_embeddings", v.longest, 1, kMostModelSize, "longest sequence",
                 {"n_positions"}),
      {.name = "rope_theta",
       .otherwise = 10000.0,
       .low = 1,
       .help = "base of the rotary positions' wavelengths"},
      model_norm_epsilon("rms_norm_eps", v.norm_epsilon),
      model_dropout("attention_dropout", 0.0, "dropout of attention probabilities"),
      model_init_std(),
      model_unlearnt_token(-1),
      {.name = "tie_word_embeddings", .otherwise = false, .help = "the head is the token embedding"},
  };
  if (v.bias_keys) {
    keys.push_back(
        {.name = "attention_bias", .otherwise = false, .help = "biases in attention's four projections"});
    keys.push_back({.name = "mlp_bias", .otherwise = false, .help = "biases in the MLP's three projections"});
  }
  if (v.window_switch)
    keys.push_back(
        {.name = "use_sliding_window", .otherwise = false, .help = "attention to a window of tokens"});
  if (v.window_switch)
    keys.push_back(model_size("max_window_layers", 28, 0, kMostModelSize,
                              "layers below this attend to all tokens before, those from it on to a window"));
  if (v.window) {
    keys.push_back(model_size("sliding_window", 4096, 0, kMostModelSize,
                              "tokens of the window, which sequences must not exceed; 0: there is none"));
  }
  for (ModelKey& key : rope_scaling_keys()) keys.push_back(std::move(key));
  return keys;
}

// Newer files keep all of rope_scaling and rope_theta in one object, rope_parameters. As Transformers has it: of the two
// objects the older one counts, what stands in it before what stands beside it, and only the length of the earlier
// training the other way round.
void translate_rope(nlohmann::json& document) {
  const auto is_there = [&](const char* key) {
    const auto found = document.find(key);
    return found != document.end() && found->is_object() && !found->empty();
  };
  if (!is_there("rope_scaling") && is_there("rope_parameters"))
    document["rope_scaling"] = document["rope_parameters"];
  document.erase("rope_parameters");
  const char* const earlier = "original_max_position_embeddings";
  if (is_there("rope_scaling")) {
    nlohmann::json& rope = document["rope_scaling"];
    for (const char* of_the_model : {"rope_theta", "partial_rotary_factor"})
      if (const auto value = rope.find(of_the_model); value != rope.end()) {
        document[of_the_model] = *value;
        rope.erase(of_the_model);
      }
    if (rope.contains("rope_type")) rope.erase("type");
    const auto beside = document.find(earlier);
    if (beside != document.end() && rope.value("rope_type", rope.value("type", "")) == "llama3")
      rope[earlier] = *beside;
  }
  document.erase(earlier);
}

// Where there is a list of what each layer attends to, it decides which of them have a window.
void translate_layer_types(nlohmann::json& document) {
  const auto types = document.find("layer_types");
  const auto windows = document.find("use_sliding_window");
  if (types == document.end() || !types->is_array() || windows == document.end() || *windows != true) return;
  const auto windowed = std::find(types->begin(), types->end(), "sliding_attention");
  document["max_window_layers"] = static_cast<int64_t>(windowed - types->begin());
}

// Null is no window, and as many key/value heads as heads.
void llama_translate(nlohmann::json& document) {
  translate_rope(document);
  translate_layer_types(document);
  for (const char* key : {"sliding_window", "num_key_value_heads"})
    if (const auto found = document.find(key); found != document.end() && found->is_null()) *found = 0;
  translate_unlearnt_token(document);
}

bool has_windowed_layers(const ModelValues& m) {
  return m.flag("use_sliding_window") && m.integer("max_window_layers") < m.integer("num_hidden_layers");
}

bool has_window(const LlamaVariant& v, const ModelValues& m) {
  return v.window && (!v.window_switch || has_windowed_layers(m)) && m.integer("sliding_window") > 0;
}

// Where a window holds a whole sequence, it changes nothing.
ModelFact longest_of(const LlamaVariant& v, const ModelValues& m) {
  ModelFact positions = fact_of(m, "max_position_embeddings");
  if (!has_window(v, m)) return positions;
  ModelFact window = fact_of(m, "sliding_window");
  return window.value < positions.value ? window : positions;
}

ModelFacts facts_of(const LlamaVariant& v, const ModelValues& m) {
  return {.vocabulary = fact_of(m, "vocab_size"),
          .longest = longest_of(v, m),
          .any_length = !has_window(v, m),
          .layers = fact_of(m, "num_hidden_layers"),
          .divided = {fact_of(m, "num_attention_heads"), fact_of(m, "intermediate_size")},
          .divided_or_repeated = {fact_of(m, "num_key_value_heads")}};
}

std::vector<CompletedValue> complete_values(ModelValues& m) {
  std::vector<CompletedValue> completed;
  const auto open = [&](const char* key, int64_t value, const char* from) {
    if (m.integer(key) != 0) return;
    m.set(key, value);
    completed.push_back({key, from});
  };
  const int64_t heads = m.integer("num_attention_heads");
  open("num_key_value_heads", heads, "model.num_attention_heads");
  open("head_dim", m.integer("hidden_size") / heads, "model.hidden_size / model.num_attention_heads");
  if (m.text("rope_scaling.rope_type") == "llama3")
    open("rope_scaling.original_max_position_embeddings", m.integer("max_position_embeddings"),
         "model.max_position_embeddings");
  return completed;
}

std::vector<UnusedModelKeys> unused_keys(const LlamaVariant& v) {
  const auto scaling_is = [](const char* type) {
    return [type](const ModelValues& m) { return m.text("rope_scaling.rope_type") == type; };
  };
  const std::string from = "rope_scaling.rope_type";
  const std::vector<std::string> of_llama3 = {"rope_scaling.low_freq_factor", "rope_scaling.high_freq_factor",
                                              "rope_scaling.original_max_position_embeddings"};
  std::vector<UnusedModelKeys> unused = {
      {{"rope_scaling.factor"}, from, scaling_is("default"), "positions are not scaled"},
      {of_llama3, from, scaling_is("default"), "positions are not scaled"},
      {of_llama3, from, scaling_is("linear"), "all waves are scaled alike"}};
  if (v.window_switch)
    unused.push_back(
        {{"sliding_window"},
         "max_window_layers",
         [](const ModelValues& m) { return m.flag("use_sliding_window") && !has_windowed_layers(m); },
         "no layer of the model has a window"});
  if (v.window_switch)
    unused.push_back({{"sliding_window", "max_window_layers"},
                      "use_sliding_window",
                      [](const ModelValues& m) { return !m.flag("use_sliding_window"); },
                      "attention has no window"});
  return unused;
}

std::vector<Finding> check_values(const ModelValues& m) {
  std::vector<Finding> found;
  const int64_t heads = m.integer("num_attention_heads"), shared = m.integer("num_key_value_heads"),
                size = m.integer("head_dim");
  if (size * heads != m.integer("hidden_size") && size == m.integer("hidden_size") / heads)
    check_heads(m, "hidden_size", "num_attention_heads", found);
  if (shared > 0 && heads % shared != 0)
    found.push_back(
        {{"model.num_attention_heads", "model.num_key_value_heads"},
         fmt::format("model.num_attention_heads {} is not a multiple of model.num_key_value_heads {}", heads,
                     shared)});
  if (size % 2 != 0)
    found.push_back(
        {{"model.head_dim"}, fmt::format("model.head_dim {} is odd: positions turn pairs", size)});
  check_unlearnt_token(m, found);
  const std::string& scaling = m.text("rope_scaling.rope_type");
  if (const double factor = m.real("rope_scaling.factor"); scaling != "default" && factor < 1)
    found.push_back(
        {{"model.rope_scaling.rope_type", "model.rope_scaling.factor"},
         factor == 0 ? fmt::format("model.rope_scaling.rope_type {} needs model.rope_scaling.factor", scaling)
                     : fmt::format("model.rope_scaling.factor {} is below 1", factor)});
  const double low = m.real("rope_scaling.low_freq_factor"), high = m.real("rope_scaling.high_freq_factor");
  if (scaling == "llama3" && low >= high)
    found.push_back(
        {{"model.rope_scaling.low_freq_factor", "model.rope_scaling.high_freq_factor"},
         fmt::format("model.rope_scaling.low_freq_factor {} is not below high_freq_factor {}", low, high)});
  return found;
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
      {"rope_theta", m.real("rope_theta")},
      {"rope_scaling", nullptr},
      {"rms_norm_eps", m.real("rms_norm_eps")},
      {"attention_dropout", m.real("attention_dropout")},
      {"initializer_range", m.real("initializer_range")},
      {"pad_token_id", unlearnt_token_json(m)},
      {"tie_word_embeddings", m.flag("tie_word_embeddings")},
      {"torch_dtype", dtype},
  };
  const std::string& scaling = m.text("rope_scaling.rope_type");
  if (scaling != "default")
    document["rope_scaling"] = {{"rope_type", scaling}, {"factor", m.real("rope_scaling.factor")}};
  if (scaling == "llama3") {
    for (const char* key : {"low_freq_factor", "high_freq_factor"})
      document["rope_scaling"][key] = m.real(std::string("rope_scaling.") + key);
    document["rope_scaling"]["original_max_position_embeddings"] =
        m.integer("rope_scaling.original_max_position_embeddings");
  }
  for (const char* key : {"attention_bias", "mlp_bias"})
    if (v.bias_keys) document[key] = m.flag(key);
  if (v.window_switch) document["use_sliding_window"] = m.flag("use_sliding_window");
  if (v.window_switch) document["max_window_layers"] = m.integer("max_window_layers");
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
  m.set("attention_dropout", sketch.dropout);
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
        m_(m),
        width_(m.integer("hidden_size")),
        std_(m.real("initializer_range")),
        all_biases_(variant.bias_keys && m.flag("attention_bias")),
        input_biases_(all_biases_ || variant.query_key_value_bias),
        mlp_biases_(variant.bias_keys && m.flag("mlp_bias")),
        attention_{.heads = m.integer("num_attention_heads"),
                   .head_size = m.integer("head_dim"),
                   .kv_heads = m.integer("num_key_value_heads"),
                   .positions = positions,
                   .rotary_table = b.rotary_table("rotary", m.integer("head_dim"), rotary(m), positions),
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
    ValueId a = b_.self_attention("attn", norm("attn/norm", h + ".input_layernorm", x), attention_,
                                  parts(h + ".self_attn", {"q_proj", "k_proj", "v_proj"}, input_biases_));
    a = b_.row_linear("attn/proj", a, attention_.heads * attention_.head_size, width_, projection);
    x = b_.residual("attn/residual", a, x, projection.bias, 0);

    b_.enter_block("mlp");
    const MlpOptions mlp{.inner = m_.integer("intermediate_size"),
                         .gated = true,
                         .up = parts(h + ".mlp", {"gate_proj", "up_proj"}, mlp_biases_),
                         .down = linear(h + ".mlp.down_proj", mlp_biases_)};
    a = b_.mlp("mlp", norm("mlp/norm", h + ".post_attention_layernorm", x), mlp);
    return b_.residual("mlp/residual", a, x, mlp.down.bias, 0);
  }

 private:
  static RotaryOptions rotary(const ModelValues& m) {
    return {.theta = m.real("rope_theta"),
            .scaling = m.text("rope_scaling.rope_type"),
            .factor = m.real("rope_scaling.factor"),
            .low_freq_factor = m.real("rope_scaling.low_freq_factor"),
            .high_freq_factor = m.real("rope_scaling.high_freq_factor"),
            .original_positions = m.integer("rope_scaling.original_max_position_embeddings")};
  }

  LinearOptions linear(const std::string& name, bool bias) const {
    return {.weight = name + ".weight", .bias = bias ? name + ".bias" : "", .init_std = std_};
  }
  // Of several tensors in files, one behind the other.
  LinearOptions parts(const std::string& name, const std::vector<const char*>& names, bool bias) const {
    LinearOptions options = linear(name, bias);
    for (const char* part : names) {
      options.weight_blocks.push_back(name + "." + part + ".weight");
      if (bias) options.bias_blocks.push_back(name + "." + part + ".bias");
    }
    return options;
  }

  LayerBuilder& b_;
  const ModelValues& m_;
  int64_t width_;
  double std_;
  bool all_biases_, input_biases_, mlp_biases_;
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
      .adapted = {"q_proj", "v_proj"},
      .keys = keys_of(v),
      .sections = {{"model.rope_scaling",
                    "How rotary positions reach beyond the sequences of an earlier training."}},
      .unused = unused_keys(v),
      .fixed = {{"hidden_act", std::string("silu")}, {"partial_rotary_factor", 1.0}, {"is_causal", true}},
      .kept = v.window_switch ? std::vector<std::string_view>{"layer_types"}
                              : std::vector<std::string_view>{"max_window_layers", "layer_types"},
      .translate = llama_translate,
      .facts = [v](const ModelValues& m) { return facts_of(v, m); },
      .complete = complete_values,
      .check = check_values,
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
                     .bias_keys = true});
}

}  // namespace recollect
