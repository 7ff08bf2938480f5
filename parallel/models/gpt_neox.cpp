#include "parallel/models/gpt_neox.h"

#include "engine/io/json.h"
#include "parallel/models/keys.h"
#include "parallel/models/rope.h"
#include "parallel/tasks/loss.h"

namespace recollect {

namespace {

RopeKeys neox_rope() { return {.theta = "rotary_emb_base", .part = "rotary_pct", .part_by_default = 0.25}; }

std::vector<ModelKey> neox_keys() {
  std::vector<ModelKey> keys = {
      model_size("vocab_size", 50432, 1, kMostModelSize, "token ids are below this"),
      model_size("hidden_size", 6144, 1, kMostModelSize, "width of the residual stream", {"n_embd"}),
      model_size("intermediate_size", 24576, 1, kMostModelSize, "width of the MLP"),
      model_size("num_hidden_layers", 44, 1, kMostModelLayers, "transformer layers", {"n_layer"}),
      model_size("num_attention_heads", 64, 1, 65536, "attention heads", {"n_head"}),
      model_size("max_position_embeddings", 2048, 1, kMostModelSize, "longest sequence", {"n_positions"}),
      {.name = "hidden_act",
       .otherwise = std::string("gelu"),
       .choices = {"gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh"},
       .help = "of the MLP; gelu: erf form, the others: tanh form"},
      {.name = "use_parallel_residual",
       .otherwise = true,
       .help = "the MLP reads what attention reads; false: what attention has added to"},
      {.name = "attention_bias", .otherwise = true, .help = "biases in attention's projections"},
      model_dropout("hidden_dropout", 0.0, "dropout after the embeddings and before each residual addition"),
      model_dropout("attention_dropout", 0.0, "dropout of attention probabilities"),
      model_norm_epsilon("layer_norm_eps", 1e-5),
      model_init_std(),
      {.name = "tie_word_embeddings", .otherwise = false, .help = "the head is the token embedding"},
  };
  add_rope_keys(neox_rope(), keys);
  return keys;
}

int64_t neox_head(const ModelValues& m) {
  return m.integer("hidden_size") / m.integer("num_attention_heads");
}

ModelFacts neox_facts(const ModelValues& m) {
  return {.vocabulary = fact_of(m, "vocab_size"),
          .longest = longest_by_rope(m),
          .any_length = true,
          .layers = fact_of(m, "num_hidden_layers"),
          .divided = {fact_of(m, "num_attention_heads"), fact_of(m, "intermediate_size")},
          .tanh_gelu = is_tanh_gelu(m.text("hidden_act"))};
}

std::vector<CompletedValue> neox_complete(ModelValues& m) {
  std::vector<CompletedValue> completed;
  complete_rope(neox_rope(), m, completed);
  return completed;
}

std::vector<Finding> neox_check(const ModelValues& m) {
  std::vector<Finding> found;
  check_heads(m, "hidden_size", "num_attention_heads", found);
  if (found.empty()) check_rope(neox_rope(), m, neox_head(m), found);
  return found;
}

std::string neox_config_json(const ModelValues& m, Task, std::string_view dtype) {
  nlohmann::ordered_json document = {
      {"architectures", {"GPTNeoXForCausalLM"}},
      {"model_type", "gpt_neox"},
      {"vocab_size", m.integer("vocab_size")},
      {"hidden_size", m.integer("hidden_size")},
      {"intermediate_size", m.integer("intermediate_size")},
      {"num_hidden_layers", m.integer("num_hidden_layers")},
      {"num_attention_heads", m.integer("num_attention_heads")},
      {"max_position_embeddings", m.integer("max_position_embeddings")},
      {"hidden_act", m.text("hidden_act")},
      {"use_parallel_residual", m.flag("use_parallel_residual")},
      {"attention_bias", m.flag("attention_bias")},
      {"hidden_dropout", m.real("hidden_dropout")},
      {"attention_dropout", m.real("attention_dropout")},
      {"layer_norm_eps", m.real("layer_norm_eps")},
      {"initializer_range", m.real("initializer_range")},
      {"bos_token_id", nullptr},
      {"eos_token_id", nullptr},
      {"tie_word_embeddings", m.flag("tie_word_embeddings")},
      {"torch_dtype", dtype},
  };
  write_rope(neox_rope(), m, document);
  return document.dump(2) + '\n';
}

ModelValues neox_sketch(const ModelFamily& family, const ModelSketch& sketch) {
  ModelValues m(family.keys);
  m.set("vocab_size", sketch.vocabulary);
  m.set("max_position_embeddings", sketch.longest);
  m.set("hidden_size", sketch.width);
  m.set("intermediate_size", 4 * sketch.width);
  m.set("num_hidden_layers", sketch.layers);
  m.set("num_attention_heads", sketch.heads);
  for (const char* dropout : {"hidden_dropout", "attention_dropout"}) m.set(dropout, sketch.dropout);
  return m;
}

// Buffers of old files, and the head if it is tied.
bool neox_passes_over(std::string_view name) {
  return name == "embed_out.weight" || name.ends_with(".attention.bias") ||
         name.ends_with(".attention.masked_bias") || name.ends_with(".rotary_emb.inv_freq");
}

class NeoxLayers {
 public:
  NeoxLayers(LayerBuilder& b, const ModelValues& m, ValueId positions)
      : b_(b),
        m_(m),
        width_(m.integer("hidden_size")),
        dropout_(m.real("hidden_dropout")),
        attention_{
            .heads = m.integer("num_attention_heads"),
            .head_size = neox_head(m),
            .positions = positions,
            .rotary_table = b.rotary_table("rotary", rotary_options(neox_rope(), m, neox_head(m)), positions),
            .dropout = m.real("attention_dropout")} {}

  ValueId norm(const std::string& name, const std::string& file_name, ValueId x) const {
    return b_.norm(
        name, x,
        {.weight = file_name + ".weight", .bias = file_name + ".bias", .epsilon = m_.real("layer_norm_eps")});
  }

  ValueId layer(int64_t number, ValueId x) const {
    const std::string h = "layers." + std::to_string(number);
    b_.enter_layer(static_cast<int>(number));
    const bool biases = m_.flag("attention_bias");
    LinearOptions projections = linear(h + ".attention.query_key_value", biases);
    projections.interleaved = attention_.head_size;
    const LinearOptions projection = linear(h + ".attention.dense", biases);
    ValueId a =
        b_.self_attention("attn", norm("attn/norm", h + ".input_layernorm", x), attention_, projections);
    a = b_.row_linear("attn/proj", a, width_, width_, projection);
    const ValueId attended = b_.residual("attn/residual", a, x, projection.bias, dropout_);

    b_.enter_block("mlp");
    const MlpOptions mlp{.inner = m_.integer("intermediate_size"),
                         .activation = gelu_form(m_.text("hidden_act")),
                         .up = linear(h + ".mlp.dense_h_to_4h", true),
                         .down = linear(h + ".mlp.dense_4h_to_h", true)};
    const ValueId read = m_.flag("use_parallel_residual") ? x : attended;
    a = b_.mlp("mlp", norm("mlp/norm", h + ".post_attention_layernorm", read), mlp);
    return b_.residual("mlp/residual", a, attended, mlp.down.bias, dropout_);
  }

 private:
  LinearOptions linear(const std::string& name, bool bias) const {
    return {.weight = name + ".weight",
            .bias = bias ? name + ".bias" : "",
            .init_std = m_.real("initializer_range")};
  }

  LayerBuilder& b_;
  const ModelValues& m_;
  int64_t width_;
  double dropout_;
  AttentionOptions attention_;
};

Model build_neox(Graph& graph, const OpRegistry& registry, const ModelValues& m, const TaskSettings& task,
                 const BatchShape& batch, ParallelLayout layout, DType dtype) {
  LayerBuilder b(graph, registry, layout, dtype, batch);
  Model model = begin_model(b, task,
                            {.prefix = "gpt_neox.",
                             .has_prefix = [](std::string_view name) { return name != "embed_out.weight"; },
                             .passed_over = neox_passes_over,
                             .tied = {}});
  const bool tied = m.flag("tie_word_embeddings");
  if (tied) model.files.tied = {{"embed_out.weight", "embed_in.weight"}};
  const int64_t vocabulary = m.integer("vocab_size"), width = m.integer("hidden_size");
  const double std = m.real("initializer_range");
  const NeoxLayers layers(b, m, positions_of(model, task));
  if (b.length() != kNone) model.inputs["length"] = b.length();
  const ValueId words = b.vocabulary_table("embed_in.weight", vocabulary, width, std);
  ValueId x = b.vocabulary_embedding("embedding/tokens", model.input("ids"), words);
  x = b.dropout("embedding/dropout", x, m.real("hidden_dropout"));
  for (int64_t layer = 0; layer < m.integer("num_hidden_layers"); ++layer) x = layers.layer(layer, x);
  b.enter_layer(-1);
  x = layers.norm("final/norm", "final_layer_norm", x);
  const ValueId head = tied ? words
                            : b.vocabulary_table("embed_out.weight", vocabulary, width, std,
                                                 /*may_be_missing=*/true);
  model.logits = b.vocabulary_head("final/head", x, head, model,
                                   {.vocabulary = vocabulary, .most_logits = batch.most_logits});
  model.parameters = b.parameters();
  return model;
}

}  // namespace

ModelFamily gpt_neox_family() {
  return {.type = "gpt_neox",
          .tasks = {Task::kCausalLm},
          .adapted = {"query_key_value"},
          .keys = neox_keys(),
          .sections = {rope_section()},
          .unused = unused_rope_keys(neox_rope()),
          .kept = {"classifier_dropout"},
          .translate = [](nlohmann::json& document) { translate_rope(neox_rope(), document); },
          .facts = neox_facts,
          .complete = neox_complete,
          .check = neox_check,
          .config_json = neox_config_json,
          .sketch = neox_sketch,
          .build = build_neox};
}

}  // namespace recollect
