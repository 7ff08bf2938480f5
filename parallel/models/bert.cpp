#include "parallel/models/bert.h"

#include <algorithm>

#include "parallel/models/bert_layers.h"
#include "parallel/models/encoder_labels.h"

namespace recollect {

namespace {

// The defaults of a kind's keys.
struct EncoderDefaults {
  int64_t vocabulary = 30522, layers = 12, padding = 0;
};

constexpr EncoderKind kBert = {.type = "bert", .classes = "Bert", .prefix = "bert."};

constexpr EncoderKind roberta_kind(std::string_view type, const char* classes) {
  return {.type = type,
          .classes = classes,
          .prefix = "roberta.",
          .head_dropouts = {"classifier_dropout", "hidden_dropout_prob", "classifier_dropout", ""},
          .padded_positions = true,
          .masked_lm = {"lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "lm_head.decoder.weight",
                        "lm_head.decoder.bias", true},
          .sequence = {"classifier.dense", "classifier.out_proj", false, true}};
}
constexpr EncoderKind kRoberta = roberta_kind("roberta", "Roberta"),
                      kXlmRoberta = roberta_kind("xlm-roberta", "XLMRoberta");

constexpr EncoderKind kDistilbert = {
    .type = "distilbert",
    .classes = "DistilBert",
    .prefix = "distilbert.",
    .width = "dim",
    .layers = "n_layers",
    .heads = "n_heads",
    .inner = "hidden_dim",
    .activation = "activation",
    .dropout = "dropout",
    .attention_dropout = "attention_dropout",
    .head_dropouts = {"seq_classif_dropout", "seq_classif_dropout", "dropout", "qa_dropout"},
    .epsilon = "",
    .types = "",
    .waves = "sinusoidal_pos_embds",
    .tensors = {"transformer.layer.", ".attention.q_lin", ".attention.k_lin", ".attention.v_lin",
                ".attention.out_lin", ".sa_layer_norm", ".ffn.lin1", ".ffn.lin2", ".output_layer_norm"},
    .masked_lm = {"vocab_transform", "vocab_layer_norm", "vocab_projector.bias", "vocab_projector.weight",
                  ""},
    .sequence = {"pre_classifier", "classifier", true},
    .choice = {"pre_classifier", "classifier", true}};

bool has_classifier_dropout(const EncoderKind& kind) {
  return std::string_view(kind.head_dropouts.sequence) == "classifier_dropout";
}

// Transformers knows DistilBERT's sizes by BERT's names too.
std::vector<std::string> encoder_aliases(std::string_view name, std::string_view of_bert, std::string more) {
  std::vector<std::string> all;
  if (name != of_bert) all.emplace_back(of_bert);
  if (name != more) all.push_back(std::move(more));
  return all;
}

void add_dropout_keys(const EncoderKind& kind, std::vector<ModelKey>& keys) {
  keys.push_back(
      model_dropout(kind.dropout, 0.1, "dropout after the embeddings and before each residual addition"));
  keys.push_back(model_dropout(kind.attention_dropout, 0.1, "dropout of attention probabilities"));
  if (has_classifier_dropout(kind)) {
    keys.push_back({.name = "classifier_dropout",
                    .otherwise = -1.0,
                    .low = -1,
                    .high = 1,
                    .high_open = true,
                    .concerns = ModelKey::Concerns::kTraining,
                    .help = "dropout before a classifier; -1: hidden_dropout_prob"});
    return;
  }
  keys.push_back(model_dropout(kind.head_dropouts.question, 0.1, "dropout before question_answering's head"));
  keys.push_back(model_dropout(kind.head_dropouts.sequence, 0.2, "dropout before a classifier of samples"));
}

std::vector<ModelKey> encoder_keys(const EncoderKind& kind, const EncoderDefaults& defaults) {
  std::vector<ModelKey> keys = {
      model_size("vocab_size", defaults.vocabulary, 1, kMostModelSize, "token ids are below this"),
      model_size(kind.width, 768, 1, kMostModelSize, "width of the residual stream",
                 encoder_aliases(kind.width, "hidden_size", "n_embd")),
      model_size(kind.layers, defaults.layers, 1, kMostModelLayers, "transformer layers",
                 encoder_aliases(kind.layers, "num_hidden_layers", "n_layer")),
      model_size(kind.heads, 12, 1, 65536, "attention heads",
                 encoder_aliases(kind.heads, "num_attention_heads", "n_head")),
      model_size(kind.inner, 3072, 1, kMostModelSize, "width of the MLP"),
      {.name = kind.activation,
       .otherwise = std::string("gelu"),
       .choices = {"gelu", "gelu_new", "gelu_pytorch_tanh"},
       .help = kind.masked_lm.erf
                   ? "of the MLP; gelu: erf form, the others: tanh form"
                   : "of the MLP and of the head of masked_lm; gelu: erf form, the others: tanh "
                     "form"},
  };
  add_dropout_keys(kind, keys);
  keys.push_back(model_size("max_position_embeddings", 512, 1, kMostModelSize,
                            kind.padded_positions
                                ? "positions: pad_token_id + 1 more than the longest sequence has tokens"
                                : "longest sequence",
                            {"n_positions"}));
  if (*kind.types) keys.push_back(model_size(kind.types, 2, 1, kMostModelSize, "token types"));
  keys.push_back(model_unlearnt_token(defaults.padding));
  if (kind.padded_positions) {
    keys.back().low = 0;
    keys.back().help = "the token of padding, whose embedding is not learnt; positions begin behind it";
  }
  add_label_keys(keys);
  if (*kind.epsilon) keys.push_back(model_norm_epsilon(kind.epsilon, 1e-12));
  if (*kind.waves)
    keys.push_back(
        {.name = kind.waves,
         .otherwise = false,
         .concerns = ModelKey::Concerns::kFreshWeights,
         .help = "a new model's positions begin as sines and cosines; they are learnt like others"});
  keys.push_back(model_init_std());
  return keys;
}

// Null is the default of a probability or of a kind. Transformers needs a token of padding for padded positions.
void encoder_translate(const EncoderKind& kind, nlohmann::json& document) {
  translate_labels(document);
  const auto padding = document.find("pad_token_id");
  if (!kind.padded_positions)
    translate_unlearnt_token(document);
  else if (padding != document.end() && padding->is_null())
    *padding = "null";  // is refused in this word
}

ModelFacts encoder_facts(const EncoderKind& kind, const ModelValues& m) {
  const int64_t kept = kind.padded_positions ? m.integer("pad_token_id") + 1 : 0;
  ModelFact longest = fact_of(m, "max_position_embeddings");
  longest.value -= kept;
  return {.vocabulary = fact_of(m, "vocab_size"),
          .longest = longest,
          .kept_positions = kept,
          .layers = fact_of(m, kind.layers),
          .divided = {fact_of(m, kind.heads), fact_of(m, kind.inner)},
          .token_types = *kind.types ? m.integer(kind.types) : 0,
          .padding_id = std::max<int64_t>(0, m.integer("pad_token_id")),
          .labels = m.integer("num_labels"),
          .problem = problem_of(m),
          .tanh_gelu = is_tanh_gelu(m.text(kind.activation))};
}

std::vector<CompletedValue> encoder_complete(const EncoderKind& kind, ModelValues& m) {
  std::vector<CompletedValue> completed;
  if (has_classifier_dropout(kind) && m.real("classifier_dropout") == -1) {
    m.set("classifier_dropout", m.real("hidden_dropout_prob"));
    completed.push_back({"classifier_dropout", "model.hidden_dropout_prob"});
  }
  complete_problem(m, completed);
  return completed;
}

std::vector<Finding> encoder_check(const EncoderKind& kind, const ModelValues& m) {
  std::vector<Finding> found;
  check_heads(m, kind.width, kind.heads, found);
  check_unlearnt_token(m, found);
  if (has_classifier_dropout(kind))
    if (const double p = m.real("classifier_dropout"); p < 0 && p != -1)
      found.push_back(
          {{"model.classifier_dropout"}, fmt::format("model.classifier_dropout {} is no probability", p)});
  const int64_t padding = m.integer("pad_token_id"), positions = m.integer("max_position_embeddings");
  if (kind.padded_positions && padding + 1 >= positions)
    found.push_back(
        {{"model.max_position_embeddings", "model.pad_token_id"},
         fmt::format("model.max_position_embeddings {} leaves no position behind that of padding, "
                     "model.pad_token_id {}",
                     positions, padding)});
  return found;
}

std::string encoder_config_json(const EncoderKind& kind, const ModelValues& m, Task task,
                                std::string_view dtype) {
  nlohmann::ordered_json document = {{"architectures", {std::string(kind.classes) + class_of_task(task)}},
                                     {"model_type", kind.type}};
  for (const char* key : {"vocab_size", kind.width, kind.layers, kind.heads, kind.inner})
    document[key] = m.integer(key);
  document[kind.activation] = m.text(kind.activation);
  for (const char* key : {kind.dropout, kind.attention_dropout, kind.head_dropouts.sequence})
    document[key] = m.real(key);
  if (*kind.head_dropouts.question)
    document[kind.head_dropouts.question] = m.real(kind.head_dropouts.question);
  document["max_position_embeddings"] = m.integer("max_position_embeddings");
  if (*kind.types) document[kind.types] = m.integer(kind.types);
  document["pad_token_id"] = unlearnt_token_json(m);
  document["initializer_range"] = m.real("initializer_range");
  if (*kind.epsilon) document[kind.epsilon] = m.real(kind.epsilon);
  if (*kind.waves) document[kind.waves] = m.flag(kind.waves);
  document["tie_word_embeddings"] = true;
  document["torch_dtype"] = dtype;
  write_labels(m, task, document);
  return document.dump(2) + '\n';
}

ModelValues encoder_sketch(const EncoderKind& kind, const ModelFamily& family, const ModelSketch& sketch) {
  ModelValues m(family.keys);
  m.set("vocab_size", sketch.vocabulary);
  m.set("max_position_embeddings",
        sketch.longest + (kind.padded_positions ? m.integer("pad_token_id") + 1 : 0));
  m.set(kind.width, sketch.width);
  m.set(kind.inner, 4 * sketch.width);
  m.set(kind.layers, sketch.layers);
  m.set(kind.heads, sketch.heads);
  for (const char* dropout : {kind.dropout, kind.attention_dropout}) m.set(dropout, sketch.dropout);
  if (!has_classifier_dropout(kind))
    for (const char* dropout : {kind.head_dropouts.sequence, kind.head_dropouts.question})
      m.set(dropout, sketch.dropout);
  return m;
}

// `kind` outlives the family.
ModelFamily encoder_family(const EncoderKind& kind, const EncoderDefaults& defaults,
                           std::vector<std::string> adapted) {
  ModelFamily family{
      .type = kind.type,
      .tasks = kEncoderTasks,
      .adapted = std::move(adapted),
      .keys = encoder_keys(kind, defaults),
      .fixed = {{"is_causal", false}, {"tie_word_embeddings", true}},
      .translate = [&kind](nlohmann::json& document) { encoder_translate(kind, document); },
      .facts = [&kind](const ModelValues& m) { return encoder_facts(kind, m); },
      .complete = [&kind](ModelValues& m) { return encoder_complete(kind, m); },
      .check = [&kind](const ModelValues& m) { return encoder_check(kind, m); },
      .config_json = [&kind](const ModelValues& m, Task task,
                             std::string_view dtype) { return encoder_config_json(kind, m, task, dtype); },
      .sketch = [&kind](const ModelFamily& of,
                        const ModelSketch& sketch) { return encoder_sketch(kind, of, sketch); },
      .build =
          [&kind](Graph& graph, const OpRegistry& registry, const ModelValues& m, const TaskSettings& task,
                  const BatchShape& batch, ParallelLayout layout, DType dtype) {
            return build_encoder(kind, graph, registry, m, task, batch, layout, dtype);
          }};
  if (*kind.types)
    family.fixed.insert(family.fixed.end(), {{"position_embedding_type", std::string("absolute")},
                                             {"is_decoder", false},
                                             {"add_cross_attention", false}});
  return family;
}

}  // namespace

ModelFamily bert_family() { return encoder_family(kBert, {}, {"query", "value"}); }

ModelFamily roberta_family() {
  return encoder_family(kRoberta, {.vocabulary = 50265, .padding = 1}, {"query", "value"});
}

ModelFamily xlm_roberta_family() { return encoder_family(kXlmRoberta, {.padding = 1}, {"query", "value"}); }

ModelFamily distilbert_family() { return encoder_family(kDistilbert, {.layers = 6}, {"q_lin", "v_lin"}); }

}  // namespace recollect
