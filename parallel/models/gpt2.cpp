#include "parallel/models/gpt2.h"

#include <cmath>

#include "engine/io/json.h"
#include "parallel/models/keys.h"
#include "parallel/tasks/loss.h"

namespace recollect {

namespace {

std::vector<ModelKey> gpt2_keys() {
  return {
      model_size("vocab_size", 50257, 1, kMostModelSize, "token ids are below this"),
      model_size("n_positions", 1024, 1, kMostModelSize, "longest sequence", {"max_position_embeddings"}),
      model_size("n_embd", 768, 1, kMostModelSize, "width of the residual stream", {"hidden_size"}),
      model_size("n_layer", 12, 1, kMostModelLayers, "transformer layers", {"num_hidden_layers"}),
      model_size("n_head", 12, 1, 65536, "attention heads", {"num_attention_heads"}),
      model_size("n_inner", 0, 0, kMostModelSize, "width of the MLP; 0: 4 n_embd", {"intermediate_size"}),
      // The first two are one function.
      {.name = "activation_function",
       .otherwise = std::string("gelu_new"),
       .choices = {"gelu_new", "gelu_pytorch_tanh", "gelu"},
       .help = "of the MLP; gelu_new: tanh form, gelu: erf form"},
      model_dropout("resid_pdrop", 0.1, "dropout before each residual addition"),
      model_dropout("embd_pdrop", 0.1, "dropout after the embeddings"),
      model_dropout("attn_pdrop", 0.1, "dropout of attention probabilities"),
      model_norm_epsilon("layer_norm_epsilon", 1e-5),
      model_init_std(),
      {.name = "tie_word_embeddings",
       .otherwise = true,
       .help = "the head is the token embedding; only true"},
  };
}

ModelFacts gpt2_facts(const ModelValues& m) {
  return {.vocabulary = fact_of(m, "vocab_size"),
          .longest = fact_of(m, "n_positions"),
          .layers = fact_of(m, "n_layer"),
          .divided = {fact_of(m, "n_head"), fact_of(m, "n_inner")},
          .tanh_gelu = is_tanh_gelu(m.text("activation_function"))};
}

std::vector<CompletedValue> gpt2_complete(ModelValues& m) {
  if (m.integer("n_inner") != 0) return {};
  m.set("n_inner", 4 * m.integer("n_embd"));
  return {{"n_inner", "4 x model.n_embd"}};
}

std::vector<Finding> gpt2_check(const ModelValues& m) {
  std::vector<Finding> found;
  check_heads(m, "n_embd", "n_head", found);
  return found;
}

std::string gpt2_config_json(const ModelValues& m, Task, std::string_view dtype) {
  using nlohmann::json;
  constexpr int64_t kEndOfText = 50256;  // of GPT-2's own vocabulary; other vocabularies name none
  const json end_of_text = m.integer("vocab_size") > kEndOfText ? json(kEndOfText) : json(nullptr);
  const int64_t inner = m.integer("n_inner");
  const bool usual_mlp = inner == 0 || inner == 4 * m.integer("n_embd");
  const nlohmann::ordered_json document = {
      {"architectures", {"GPT2LMHeadModel"}},
      {"model_type", "gpt2"},
      {"vocab_size", m.integer("vocab_size")},
      {"n_positions", m.integer("n_positions")},
      {"n_embd", m.integer("n_embd")},
      {"n_layer", m.integer("n_layer")},
      {"n_head", m.integer("n_head")},
      {"n_inner", usual_mlp ? json(nullptr) : json(inner)},
      {"activation_function", m.text("activation_function")},
      {"resid_pdrop", m.real("resid_pdrop")},
      {"embd_pdrop", m.real("embd_pdrop")},
      {"attn_pdrop", m.real("attn_pdrop")},
      {"layer_norm_epsilon", m.real("layer_norm_epsilon")},
      {"initializer_range", m.real("initializer_range")},
      {"scale_attn_weights", true},
      {"tie_word_embeddings", m.flag("tie_word_embeddings")},
      {"bos_token_id", end_of_text},
      {"eos_token_id", end_of_text},
      {"torch_dtype", dtype},
  };
  return document.dump(2) + '\n';
}

ModelValues gpt2_sketch(const ModelFamily& family, const ModelSketch& sketch) {
  ModelValues m(family.keys);
  m.set("vocab_size", sketch.vocabulary);
  m.set("n_positions", sketch.longest);
  m.set("n_embd", sketch.width);
  m.set("n_layer", sketch.layers);
  m.set("n_head", sketch.heads);
  for (const char* dropout : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) m.set(dropout, sketch.dropout);
  return m;
}

// Buffers that files of old versions carry, and the tied head.
bool gpt2_passes_over(std::string_view name) {
  return name == "lm_head.weight" || name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

// A layer's Conv1D. Some biases are added by the op that follows.
LinearOptions conv1d(const std::string& name, double init_std) {
  return {
      .weight = name + ".weight", .bias = name + ".bias", .transposed_in_file = true, .init_std = init_std};
}

class Gpt2Layers {
 public:
  Gpt2Layers(LayerBuilder& b, const ModelValues& m, ValueId positions)
      : b_(b),
        m_(m),
        positions_(positions),
        width_(m.integer("n_embd")),
        std_(m.real("initializer_range")),
        projection_std_(std_ / std::sqrt(2.0 * static_cast<double>(m.integer("n_layer")))) {}

  ValueId norm(const std::string& name, const std::string& file_name, ValueId x) const {
    return b_.norm(name, x,
                   {.weight = file_name + ".weight",
                    .bias = file_name + ".bias",
                    .epsilon = m_.real("layer_norm_epsilon")});
  }

  ValueId layer(int64_t number, ValueId x) const {
    const std::string h = "h." + std::to_string(number);
    b_.enter_layer(static_cast<int>(number));

    const AttentionOptions attention{.heads = m_.integer("n_head"),
                                     .head_size = width_ / m_.integer("n_head"),
                                     .positions = positions_,
                                     .dropout = m_.real("attn_pdrop")};
    const LinearOptions projection = conv1d(h + ".attn.c_proj", projection_std_);
    ValueId a = norm("attn/norm", h + ".ln_1", x);
    a = b_.self_attention("attn", a, attention, conv1d(h + ".attn.c_attn", std_));
    a = b_.row_linear("attn/proj", a, width_, width_, projection);
    x = b_.residual("attn/residual", a, x, projection.bias, m_.real("resid_pdrop"));

    b_.enter_block("mlp");
    const MlpOptions mlp{.inner = m_.integer("n_inner"),
                         .activation = gelu_form(m_.text("activation_function")),
                         .up = conv1d(h + ".mlp.c_fc", std_),
                         .down = conv1d(h + ".mlp.c_proj", projection_std_)};
    a = b_.mlp("mlp", norm("mlp/norm", h + ".ln_2", x), mlp);
    return b_.residual("mlp/residual", a, x, mlp.down.bias, m_.real("resid_pdrop"));
  }

 private:
  LayerBuilder& b_;
  const ModelValues& m_;
  ValueId positions_;
  int64_t width_;
  double std_, projection_std_;
};

Model build_gpt2(Graph& graph, const OpRegistry& registry, const ModelValues& m, const TaskSettings& task,
                 const BatchShape& batch, ParallelLayout layout, DType dtype) {
  LayerBuilder b(graph, registry, layout, dtype, batch);
  Model model = begin_model(b, task,
                            {.prefix = "transformer.",
                             .passed_over = gpt2_passes_over,
                             .tied = {{"lm_head.weight", "wte.weight"}}});
  const ValueId positions = positions_of(model, task);
  const Gpt2Layers layers(b, m, positions);

  const int64_t vocabulary = m.integer("vocab_size"), width = m.integer("n_embd");
  const double std = m.real("initializer_range");
  const ValueId wte = b.vocabulary_table("wte.weight", vocabulary, width, std);
  const ValueId wpe = b.replicated_table("wpe.weight", m.integer("n_positions"), width, std);
  ValueId x = b.vocabulary_embedding("embedding/tokens", model.input("ids"), wte);
  x = b.position_embedding("embedding/positions", x, wpe, positions);
  x = b.dropout("embedding/dropout", x, m.real("embd_pdrop"));
  for (int64_t layer = 0; layer < m.integer("n_layer"); ++layer) x = layers.layer(layer, x);
  b.enter_layer(-1);
  x = layers.norm("final/norm", "ln_f", x);
  model.logits = b.vocabulary_head("final/head", x, wte, model,
                                   {.vocabulary = vocabulary, .most_logits = batch.most_logits});
  model.parameters = b.parameters();
  return model;
}

}  // namespace

ModelFamily gpt2_family() {
  return {.type = "gpt2",
          .tasks = {Task::kCausalLm},
          .adapted = {"c_attn"},
          .keys = gpt2_keys(),
          .fixed = {{"is_causal", true},
                    {"scale_attn_weights", true},
                    {"scale_attn_by_inverse_layer_idx", false},
                    {"reorder_and_upcast_attn", false},
                    {"add_cross_attention", false},
                    {"is_encoder_decoder", false},
                    {"tie_word_embeddings", true}},
          .facts = gpt2_facts,
          .complete = gpt2_complete,
          .check = gpt2_check,
          .config_json = gpt2_config_json,
          .sketch = gpt2_sketch,
          .build = build_gpt2};
}

}  // namespace recollect
