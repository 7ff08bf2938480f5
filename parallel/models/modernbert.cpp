#include "parallel/models/modernbert.h"

#include <algorithm>
#include <cmath>

#include "parallel/models/encoder_labels.h"
#include "parallel/models/layer_types.h"
#include "parallel/tasks/loss.h"

namespace recollect {

namespace {

constexpr const char *kGlobalBase = "global_rope_theta", *kLocalBase = "local_rope_theta";

ModelKey base_key(const char* name, double otherwise, const char* of) {
  return {.name = name,
          .otherwise = otherwise,
          .low = 1,
          .help = fmt::format("base of the rotary positions' wavelengths in layers {}", of)};
}

ModelKey flag_key(const char* name, bool otherwise, const char* help) {
  return {.name = name, .otherwise = otherwise, .help = help};
}

std::vector<ModelKey> modernbert_keys() {
  std::vector<ModelKey> keys = {
      model_size("vocab_size", 50368, 1, kMostModelSize, "token ids are below this"),
      model_size("hidden_size", 768, 1, kMostModelSize, "width of the residual stream", {"n_embd"}),
      model_size("intermediate_size", 1152, 1, kMostModelSize, "width of the MLP"),
      model_size("num_hidden_layers", 22, 1, kMostModelLayers, "transformer layers", {"n_layer"}),
      model_size("num_attention_heads", 12, 1, 65536, "attention heads", {"n_head"}),
      {.name = "hidden_activation",
       .otherwise = std::string("gelu"),
       .choices = {"gelu", "gelu_new", "gelu_pytorch_tanh", "silu"},
       .help = "of the MLP's gate; gelu: erf form, gelu_new and gelu_pytorch_tanh: tanh form"},
      model_size("max_position_embeddings", 8192, 1, kMostModelSize, "longest sequence", {"n_positions"}),
      base_key(kGlobalBase, 160000, "that attend to all tokens"),
      base_key(kLocalBase, 10000, "with a window"),
      model_size("local_attention", 128, 1, kMostModelSize,
                 "of layers with a window: a token attends to tokens at most half as far away as this"),
      model_size("global_attn_every_n_layers", 3, 1, kMostModelLayers,
                 "the first of so many layers has no window, where layer_types names none"),
      layer_types_key("as global_attn_every_n_layers says"),
      model_norm_epsilon("norm_eps", 1e-5),
      flag_key("norm_bias", false, "biases in layer norms"),
      flag_key("attention_bias", false, "biases in attention's projections"),
      flag_key("mlp_bias", false, "biases in the MLP"),
      flag_key("decoder_bias", true, "a bias in the head of masked_lm"),
      flag_key("classifier_bias", false, "a bias in the dense layer of all heads"),
      {.name = "classifier_activation",
       .otherwise = std::string("gelu"),
       .choices = {"gelu", "gelu_new", "gelu_pytorch_tanh"},
       .help = "of all heads; gelu: erf form, the others: tanh form"},
      {.name = "classifier_pooling",
       .otherwise = std::string("cls"),
       .choices = {"cls", "mean"},
       .help = "what a classifier of samples reads: the first token, or the mean of all"},
      model_dropout("embedding_dropout", 0, "dropout after the embeddings"),
      model_dropout("attention_dropout", 0, "dropout of attention probabilities, and after attention"),
      model_dropout("mlp_dropout", 0, "dropout inside the MLP"),
      model_dropout("classifier_dropout", 0, "dropout before a classifier"),
      model_unlearnt_token(50283),
  };
  add_label_keys(keys);
  keys.push_back(model_init_std());
  keys.push_back({.name = "initializer_cutoff_factor",
                  .otherwise = 2.0,
                  .low = 0.1,
                  .concerns = ModelKey::Concerns::kFreshWeights,
                  .help = "initial weights are within so many standard deviations"});
  return keys;
}

// Transformers 5 has an object for each type of layers, and takes rope_scaling for both. The first type that is not
// "default" is left for the check of fixed keys.
void translate_bases(nlohmann::json& document) {
  const auto object = [](nlohmann::json& of, const char* key) {
    const auto found = of.find(key);
    return found != of.end() && found->is_object() ? *found : nlohmann::json::object();
  };
  nlohmann::json parameters = object(document, "rope_parameters"), scaling = object(document, "rope_scaling");
  if (scaling.contains("type") && !scaling.contains("rope_type")) scaling["rope_type"] = scaling["type"];
  for (const auto& [layers, base] :
       {std::pair{"full_attention", kGlobalBase}, {"sliding_attention", kLocalBase}}) {
    nlohmann::json of_layers = object(parameters, layers);
    of_layers.update(scaling);
    if (of_layers.contains("rope_theta")) document[base] = of_layers["rope_theta"];
    const auto type = of_layers.find("rope_type");
    if (type != of_layers.end() && !type->is_null() && *type != "default") document["rope_type"] = *type;
  }
  document.erase("rope_parameters");
  document.erase("rope_scaling");
}

void modernbert_translate(nlohmann::json& document) {
  translate_labels(document);
  translate_unlearnt_token(document);
  translate_layer_types(document);
  translate_bases(document);
  // Transformers takes 3 for null.
  if (const auto cutoff = document.find("initializer_cutoff_factor");
      cutoff != document.end() && cutoff->is_null())
    *cutoff = 3.0;
}

ModelFacts modernbert_facts(const ModelValues& m) {
  return {.vocabulary = fact_of(m, "vocab_size"),
          .longest = fact_of(m, "max_position_embeddings"),
          .any_length = true,
          .layers = fact_of(m, "num_hidden_layers"),
          .divided = {fact_of(m, "num_attention_heads"), fact_of(m, "intermediate_size")},
          .padding_id = std::max<int64_t>(0, m.integer("pad_token_id")),
          .labels = m.integer("num_labels"),
          .problem = problem_of(m)};
}

std::vector<CompletedValue> modernbert_complete(ModelValues& m) {
  std::vector<CompletedValue> completed;
  complete_problem(m, completed);
  return completed;
}

std::vector<Finding> modernbert_check(const ModelValues& m) {
  std::vector<Finding> found;
  check_heads(m, "hidden_size", "num_attention_heads", found);
  if (const int64_t size = m.integer("hidden_size") / m.integer("num_attention_heads");
      found.empty() && size % 2 != 0)
    found.push_back({{"model.hidden_size", "model.num_attention_heads"},
                     fmt::format("heads of {} elements are odd: rotary positions take pairs", size)});
  check_layer_types(m, found);
  check_unlearnt_token(m, found);
  return found;
}

std::string modernbert_config_json(const ModelValues& m, Task task, std::string_view dtype) {
  nlohmann::ordered_json document = {{"architectures", {std::string("ModernBert") + class_of_task(task)}},
                                     {"model_type", "modernbert"}};
  for (const char* key :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "max_position_embeddings", "local_attention", "global_attn_every_n_layers"})
    document[key] = m.integer(key);
  document["layer_types"] = layer_types_json(m);
  for (const char* key : {"hidden_activation", "classifier_activation", "classifier_pooling"})
    document[key] = m.text(key);
  for (const char* key : {"norm_bias", "attention_bias", "mlp_bias", "decoder_bias", "classifier_bias"})
    document[key] = m.flag(key);
  for (const char* key :
       {kGlobalBase, kLocalBase, "norm_eps", "embedding_dropout", "attention_dropout", "mlp_dropout",
        "classifier_dropout", "initializer_range", "initializer_cutoff_factor"})
    document[key] = m.real(key);
  document["pad_token_id"] = unlearnt_token_json(m);
  document["tie_word_embeddings"] = true;
  document["torch_dtype"] = dtype;
  write_labels(m, task, document);
  return document.dump(2) + '\n';
}

ModelValues modernbert_sketch(const ModelFamily& family, const ModelSketch& sketch) {
  ModelValues m(family.keys);
  m.set("vocab_size", sketch.vocabulary);
  m.set("max_position_embeddings", sketch.longest);
  m.set("hidden_size", sketch.width);
  m.set("intermediate_size", 4 * sketch.width);
  m.set("num_hidden_layers", sketch.layers);
  m.set("num_attention_heads", sketch.heads);
  m.set("pad_token_id", std::min(m.integer("pad_token_id"), sketch.vocabulary - 1));
  for (const char* dropout : {"embedding_dropout", "attention_dropout", "mlp_dropout"})
    m.set(dropout, sketch.dropout);
  return m;
}

bool is_of_head(std::string_view name) {
  return name.starts_with("head.") || name.starts_with("decoder.") || name.starts_with("classifier.");
}

bool modernbert_passes_over(std::string_view name) {
  return is_of_head(name) || name.ends_with(".rotary_emb.inv_freq");
}

class ModernBertLayers {
 public:
  // Either of the two values is kNone.
  ModernBertLayers(LayerBuilder& b, const ModelValues& m, ValueId lengths, ValueId positions)
      : b_(b),
        m_(m),
        width_(m.integer("hidden_size")),
        std_(m.real("initializer_range")),
        small_std_(std_ / std::sqrt(2.0 * static_cast<double>(m.integer("num_hidden_layers")))) {
    attention_ = {.heads = m.integer("num_attention_heads"),
                  .head_size = width_ / m.integer("num_attention_heads"),
                  .causal = false,
                  .lengths = lengths,
                  .positions = positions,
                  .dropout = m.real("attention_dropout")};
    for (int64_t layer = 0; layer < m.integer("num_hidden_layers"); ++layer) {
      const bool local = has_window(layer);
      ValueId& table = local ? local_ : global_;
      if (table == kNone)
        table = b.rotary_table(
            local ? "rotary/local" : "rotary/global",
            {.turned = attention_.head_size, .theta = m.real(local ? kLocalBase : kGlobalBase)}, positions);
    }
  }

  ValueId words() const {
    return b_.vocabulary_table("embeddings.tok_embeddings.weight", m_.integer("vocab_size"), width_, std_,
                               /*may_be_missing=*/false, m_.real("initializer_cutoff_factor"));
  }

  ValueId embeddings(ValueId ids, ValueId words) const {
    const ValueId x = b_.vocabulary_embedding("embedding/tokens", ids, words, m_.integer("pad_token_id"));
    return b_.dropout("embedding/dropout", norm("embedding/norm", "embeddings.norm", x),
                      m_.real("embedding_dropout"));
  }

  ValueId layer(int64_t number, ValueId x) const {
    const std::string h = "layers." + std::to_string(number);
    b_.enter_layer(static_cast<int>(number));
    AttentionOptions attention = attention_;
    attention.rotary_table = has_window(number) ? local_ : global_;
    if (has_window(number)) attention.window = m_.integer("local_attention") / 2 + 1;
    const LinearOptions projection = linear(h + ".attn.Wo", small_std_, "attention_bias");
    ValueId a = number == 0 ? x : norm("attn/norm", h + ".attn_norm", x);
    a = b_.self_attention("attn", a, attention, linear(h + ".attn.Wqkv", std_, "attention_bias"));
    a = b_.row_linear("attn/proj", a, width_, width_, projection);
    x = b_.residual("attn/residual", a, x, projection.bias, m_.real("attention_dropout"));

    b_.enter_block("mlp");
    const std::string& activation = m_.text("hidden_activation");
    const MlpOptions mlp{.inner = m_.integer("intermediate_size"),
                         .activation = gelu_form(activation),
                         .gated = true,
                         .gelu_gate = activation != "silu",
                         .dropout = m_.real("mlp_dropout"),
                         .up = linear(h + ".mlp.Wi", std_, "mlp_bias"),
                         .down = linear(h + ".mlp.Wo", small_std_, "mlp_bias")};
    a = b_.mlp("mlp", norm("mlp/norm", h + ".mlp_norm", x), mlp);
    return b_.residual("mlp/residual", a, x, mlp.down.bias, 0);
  }

  ValueId norm(const std::string& name, const std::string& file_name, ValueId x) const {
    return b_.norm(name, x, norm_options(file_name));
  }

  void masked_lm_head(ValueId x, ValueId words, const Model& model, const BatchShape& batch) const {
    b_.vocabulary_head("final/head", transformed(x, Rows::kTokens), words, model,
                       {.vocabulary = m_.integer("vocab_size"),
                        .bias = m_.flag("decoder_bias") ? "decoder.bias" : "",
                        .bias_may_be_missing = true,
                        .most_logits = batch.most_logits});
  }

  void label_head(ValueId x, const TaskSettings& task, Model& model) const {
    const bool of_samples = is_of_samples(task.task);
    const Rows rows = of_samples ? Rows::kSamples : Rows::kTokens;
    if (of_samples) x = pooled(x, task, model);
    x = b_.dropout("final/dropout", transformed(x, rows), m_.real("classifier_dropout"), rows);
    LinearOptions out = linear("classifier", 1 / std::sqrt(static_cast<double>(width_)), "");
    out.may_be_missing = true;
    x = b_.linear("final/classifier", x, logits_of(task), out, rows);
    add_label_loss(b_, task, of_samples ? x : b_.all_tokens("final/logits", x), model);
  }

 private:
  bool has_window(int64_t layer) const {
    return attends_to_window(m_, layer, layer % m_.integer("global_attn_every_n_layers") != 0);
  }
  NormOptions norm_options(const std::string& file_name) const {
    return {.weight = file_name + ".weight",
            .bias = m_.flag("norm_bias") ? file_name + ".bias" : "",
            .epsilon = m_.real("norm_eps")};
  }
  // `bias`: the key that says whether there is one; "": there is.
  LinearOptions linear(const std::string& name, double std, const char* bias) const {
    return {.weight = name + ".weight",
            .bias = !*bias || m_.flag(bias) ? name + ".bias" : "",
            .init_std = std,
            .init_cutoff = m_.real("initializer_cutoff_factor")};
  }
  ValueId pooled(ValueId x, const TaskSettings& task, const Model& model) const {
    const ValueId which = task.packed ? model.input("first_tokens") : kNone;
    if (m_.text("classifier_pooling") == "cls") return b_.first_tokens("final/first", x, which);
    return b_.mean_tokens("final/mean", x, attention_.lengths, which, attention_.positions);
  }
  // What all heads begin with.
  ValueId transformed(ValueId x, Rows rows) const {
    LinearOptions dense = linear("head.dense", small_std_, "classifier_bias");
    dense.may_be_missing = true;
    x = b_.linear("final/transform", x, width_, dense, rows, gelu_form(m_.text("classifier_activation")));
    NormOptions options = norm_options("head.norm");
    options.may_be_missing = true;
    options.rows = rows;
    return b_.norm("final/transform_norm", x, options);
  }

  LayerBuilder& b_;
  const ModelValues& m_;
  int64_t width_;
  double std_, small_std_;
  AttentionOptions attention_;
  ValueId global_ = kNone, local_ = kNone;  // rotary tables
};

Model build_modernbert(Graph& graph, const OpRegistry& registry, const ModelValues& m,
                       const TaskSettings& task, const BatchShape& batch, ParallelLayout layout,
                       DType dtype) {
  LayerBuilder b(graph, registry, layout, dtype, batch);
  Model model = begin_model(b, task,
                            {.prefix = "model.",
                             .has_prefix = [](std::string_view name) { return !is_of_head(name); },
                             .passed_over = modernbert_passes_over,
                             .tied = {}});
  add_encoder_inputs(b, task, batch, model);
  if (task.task == Task::kMaskedLm)
    model.files.tied = {{"decoder.weight", "embeddings.tok_embeddings.weight"}};
  const ModernBertLayers layers(b, m, task.packed ? kNone : model.input("lengths"),
                                positions_of(model, task));
  const ValueId words = layers.words();
  ValueId x = layers.embeddings(model.input("ids"), words);
  for (int64_t layer = 0; layer < m.integer("num_hidden_layers"); ++layer) x = layers.layer(layer, x);
  b.enter_layer(-1);
  x = layers.norm("final/norm", "final_norm", x);
  if (task.task == Task::kMaskedLm)
    layers.masked_lm_head(x, words, model, batch);
  else
    layers.label_head(x, task, model);
  model.parameters = b.parameters();
  return model;
}

}  // namespace

ModelFamily modernbert_family() {
  return {.type = "modernbert",
          .tasks = kEncoderTasks,
          .adapted = {"Wqkv"},
          .keys = modernbert_keys(),
          .fixed = {{"rope_type", std::string("default")},
                    {"sparse_pred_ignore_index", int64_t{-100}},
                    {"is_causal", false},
                    {"tie_word_embeddings", true}},
          .translate = modernbert_translate,
          .facts = modernbert_facts,
          .complete = modernbert_complete,
          .check = modernbert_check,
          .config_json = modernbert_config_json,
          .sketch = modernbert_sketch,
          .build = build_modernbert};
}

}  // namespace recollect
