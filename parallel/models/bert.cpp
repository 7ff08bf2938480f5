#include "parallel/models/bert.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/io/json.h"
#include "parallel/models/keys.h"
#include "parallel/tasks/loss.h"

namespace recollect {

namespace {

std::vector<ModelKey> bert_keys() {
  using Concerns = ModelKey::Concerns;
  return {
      model_size("vocab_size", 30522, 1, kMostModelSize, "token ids are below this"),
      model_size("hidden_size", 768, 1, kMostModelSize, "width of the residual stream", {"n_embd"}),
      model_size("num_hidden_layers", 12, 1, kMostModelLayers, "transformer layers", {"n_layer"}),
      model_size("num_attention_heads", 12, 1, 65536, "attention heads", {"n_head"}),
      model_size("intermediate_size", 3072, 1, kMostModelSize, "width of the MLP"),
      {.name = "hidden_act",
       .otherwise = std::string("gelu"),
       .choices = {"gelu", "gelu_new", "gelu_pytorch_tanh"},
       .help = "of the MLP and of the head of masked_lm; gelu: erf form, the others: tanh form"},
      model_dropout("hidden_dropout_prob", 0.1,
                    "dropout after the embeddings and before each residual addition"),
      model_dropout("attention_probs_dropout_prob", 0.1, "dropout of attention probabilities"),
      {.name = "classifier_dropout",
       .otherwise = -1.0,
       .low = -1,
       .high = 1,
       .high_open = true,
       .concerns = Concerns::kTraining,
       .help = "dropout before a classifier; -1: hidden_dropout_prob"},
      model_size("max_position_embeddings", 512, 1, kMostModelSize, "longest sequence", {"n_positions"}),
      model_size("type_vocab_size", 2, 1, kMostModelSize, "token types"),
      model_unlearnt_token(0),
      model_size("num_labels", 2, 1, 1 << 20, "classes, or numbers of a regression"),
      {.name = "problem_type",
       .otherwise = std::string("auto"),
       .choices = {"auto", "regression", "single_label_classification", "multi_label_classification"},
       .help = "of sequence_classification; auto: regression where num_labels is 1, else "
               "single_label_classification"},
      model_norm_epsilon("layer_norm_eps", 1e-12),
      model_init_std(),
  };
}

// Labels are counted by their names; null is the default of a probability or of a kind.
void bert_translate(nlohmann::json& document) {
  const auto names = document.find("id2label");
  if (names != document.end() && names->is_object() && !document.contains("num_labels"))
    document["num_labels"] = names->size();
  translate_unlearnt_token(document);
}

ProblemType problem_of(const ModelValues& m) {
  const std::string& text = m.text("problem_type");
  if (text == "auto")
    return m.integer("num_labels") == 1 ? ProblemType::kRegression : ProblemType::kSingleLabel;
  return text == "regression"                   ? ProblemType::kRegression
         : text == "multi_label_classification" ? ProblemType::kMultiLabel
                                                : ProblemType::kSingleLabel;
}

ModelFacts bert_facts(const ModelValues& m) {
  return {.vocabulary = fact_of(m, "vocab_size"),
          .longest = fact_of(m, "max_position_embeddings"),
          .layers = fact_of(m, "num_hidden_layers"),
          .divided = {fact_of(m, "num_attention_heads"), fact_of(m, "intermediate_size")},
          .token_types = m.integer("type_vocab_size"),
          .padding_id = std::max<int64_t>(0, m.integer("pad_token_id")),
          .labels = m.integer("num_labels"),
          .problem = problem_of(m),
          .tanh_gelu = is_tanh_gelu(m.text("hidden_act"))};
}

std::vector<CompletedValue> bert_complete(ModelValues& m) {
  std::vector<CompletedValue> completed;
  if (m.real("classifier_dropout") == -1) {
    m.set("classifier_dropout", m.real("hidden_dropout_prob"));
    completed.push_back({"classifier_dropout", "model.hidden_dropout_prob"});
  }
  if (m.text("problem_type") == "auto") {
    m.set("problem_type", std::string(name_of(problem_of(m))));
    completed.push_back({"problem_type", "model.num_labels"});
  }
  return completed;
}

std::vector<Finding> bert_check(const ModelValues& m) {
  std::vector<Finding> found;
  check_heads(m, "hidden_size", "num_attention_heads", found);
  check_unlearnt_token(m, found);
  if (const double p = m.real("classifier_dropout"); p < 0 && p != -1)
    found.push_back(
        {{"model.classifier_dropout"}, fmt::format("model.classifier_dropout {} is no probability", p)});
  return found;
}

const char* architecture(Task task) {
  switch (task) {
    case Task::kSequenceClassification:
      return "BertForSequenceClassification";
    case Task::kMultipleChoice:
      return "BertForMultipleChoice";
    case Task::kQuestionAnswering:
      return "BertForQuestionAnswering";
    case Task::kTokenClassification:
      return "BertForTokenClassification";
    default:
      return "BertForMaskedLM";
  }
}

std::string bert_config_json(const ModelValues& m, Task task, std::string_view dtype) {
  nlohmann::ordered_json document = {
      {"architectures", {architecture(task)}},
      {"model_type", "bert"},
      {"vocab_size", m.integer("vocab_size")},
      {"hidden_size", m.integer("hidden_size")},
      {"num_hidden_layers", m.integer("num_hidden_layers")},
      {"num_attention_heads", m.integer("num_attention_heads")},
      {"intermediate_size", m.integer("intermediate_size")},
      {"hidden_act", m.text("hidden_act")},
      {"hidden_dropout_prob", m.real("hidden_dropout_prob")},
      {"attention_probs_dropout_prob", m.real("attention_probs_dropout_prob")},
      {"classifier_dropout", m.real("classifier_dropout")},
      {"max_position_embeddings", m.integer("max_position_embeddings")},
      {"type_vocab_size", m.integer("type_vocab_size")},
      {"pad_token_id", unlearnt_token_json(m)},
      {"initializer_range", m.real("initializer_range")},
      {"layer_norm_eps", m.real("layer_norm_eps")},
      {"tie_word_embeddings", true},
      {"torch_dtype", dtype},
  };
  if (task == Task::kSequenceClassification || task == Task::kTokenClassification) {
    nlohmann::ordered_json names, numbers;
    for (int64_t label = 0; label < m.integer("num_labels"); ++label) {
      const std::string name = fmt::format("LABEL_{}", label);
      names[std::to_string(label)] = name;
      numbers[name] = label;
    }
    document["id2label"] = names;
    document["label2id"] = numbers;
  }
  if (task == Task::kSequenceClassification) document["problem_type"] = m.text("problem_type");
  return document.dump(2) + '\n';
}

ModelValues bert_sketch(const ModelFamily& family, const ModelSketch& sketch) {
  ModelValues m(family.keys);
  m.set("vocab_size", sketch.vocabulary);
  m.set("max_position_embeddings", sketch.longest);
  m.set("hidden_size", sketch.width);
  m.set("intermediate_size", 4 * sketch.width);
  m.set("num_hidden_layers", sketch.layers);
  m.set("num_attention_heads", sketch.heads);
  for (const char* dropout : {"hidden_dropout_prob", "attention_probs_dropout_prob"})
    m.set(dropout, sketch.dropout);
  return m;
}

bool in_trunk(std::string_view name) {
  return name.starts_with("embeddings.") || name.starts_with("encoder.") || name.starts_with("pooler.");
}

// What checkpoints of other tasks have, and a buffer.
bool bert_passes_over(std::string_view name) {
  return name == "embeddings.position_ids" || name.starts_with("cls.") || name.starts_with("pooler.") ||
         name.starts_with("classifier.") || name.starts_with("qa_outputs.");
}

// Files that were converted from TensorFlow's.
std::string bert_older_name(std::string_view name) {
  for (const auto& [now, then] :
       {std::pair{".LayerNorm.weight", ".LayerNorm.gamma"}, {".LayerNorm.bias", ".LayerNorm.beta"}})
    if (name.ends_with(now))
      return std::string(name.substr(0, name.size() - std::string_view(now).size())) + then;
  return {};
}

class BertLayers {
 public:
  // Either of the two is kNone.
  BertLayers(LayerBuilder& b, const ModelValues& m, ValueId lengths, ValueId positions)
      : b_(b),
        m_(m),
        lengths_(lengths),
        positions_(positions),
        width_(m.integer("hidden_size")),
        std_(m.real("initializer_range")) {}

  ValueId norm(const std::string& name, const std::string& file_name, ValueId x,
               bool may_be_missing = false) const {
    return b_.norm(name, x,
                   {.weight = file_name + ".weight",
                    .bias = file_name + ".bias",
                    .epsilon = m_.real("layer_norm_eps"),
                    .may_be_missing = may_be_missing});
  }

  ValueId layer(int64_t number, ValueId x) const {
    const std::string h = "encoder.layer." + std::to_string(number);
    b_.enter_layer(static_cast<int>(number));
    const AttentionOptions attention{.heads = m_.integer("num_attention_heads"),
                                     .head_size = width_ / m_.integer("num_attention_heads"),
                                     .causal = false,
                                     .lengths = lengths_,
                                     .positions = positions_,
                                     .dropout = m_.real("attention_probs_dropout_prob")};
    const LinearOptions projection = linear(h + ".attention.output.dense");
    ValueId a = b_.self_attention("attn", x, attention, query_key_value(h + ".attention.self."));
    a = b_.row_linear("attn/proj", a, width_, width_, projection);
    a = b_.residual("attn/residual", a, x, projection.bias, dropout());
    x = norm("attn/norm", h + ".attention.output.LayerNorm", a);

    b_.enter_block("mlp");
    const MlpOptions mlp{.inner = m_.integer("intermediate_size"),
                         .activation = gelu_form(m_.text("hidden_act")),
                         .up = linear(h + ".intermediate.dense"),
                         .down = linear(h + ".output.dense")};
    a = b_.residual("mlp/residual", b_.mlp("mlp", x, mlp), x, mlp.down.bias, dropout());
    return norm("mlp/norm", h + ".output.LayerNorm", a);
  }

  ValueId embeddings(const Model& model, ValueId words) const {
    ValueId x =
        b_.vocabulary_embedding("embedding/tokens", model.input("ids"), words, m_.integer("pad_token_id"));
    x = b_.token_types("embedding/types", x, model.input("token_types"),
                       table("embeddings.token_type_embeddings.weight", m_.integer("type_vocab_size")));
    x = b_.position_embedding(
        "embedding/positions", x,
        table("embeddings.position_embeddings.weight", m_.integer("max_position_embeddings")), positions_);
    return b_.dropout("embedding/dropout", norm("embedding/norm", "embeddings.LayerNorm", x), dropout());
  }

  void masked_lm_head(ValueId x, ValueId words, const Model& model, const BatchShape& batch) const {
    x = b_.linear("final/transform", x, width_, head("cls.predictions.transform.dense"), Rows::kTokens,
                  gelu_form(m_.text("hidden_act")));
    x = norm("final/norm", "cls.predictions.transform.LayerNorm", x, true);
    b_.vocabulary_head("final/head", x, words, model,
                       {.vocabulary = m_.integer("vocab_size"),
                        .bias = "cls.predictions.bias",
                        .bias_may_be_missing = true,
                        .most_logits = batch.most_logits});
  }

  void label_head(ValueId x, const TaskSettings& task, Model& model) const {
    const bool of_samples = task.task == Task::kSequenceClassification || task.task == Task::kMultipleChoice;
    if (of_samples) {
      x = b_.first_tokens("final/first", x, task.packed ? model.input("first_tokens") : kNone);
      x = b_.linear("final/pooler", x, width_, head("pooler.dense"), Rows::kSamples);
      x = b_.tanh("final/tanh", x);
    }
    const Rows rows = of_samples ? Rows::kSamples : Rows::kTokens;
    const bool spans = task.task == Task::kQuestionAnswering;
    if (!spans) x = b_.dropout("final/dropout", x, m_.real("classifier_dropout"), rows);
    const int64_t logits = spans ? 2 : task.task == Task::kMultipleChoice ? 1 : task.labels;
    x = b_.linear("final/classifier", x, logits, head(spans ? "qa_outputs" : "classifier"), rows);
    add_label_loss(b_, task, of_samples ? x : b_.all_tokens("final/logits", x), model);
  }

  ValueId words() const {
    return b_.vocabulary_table("embeddings.word_embeddings.weight", m_.integer("vocab_size"), width_, std_);
  }

 private:
  double dropout() const { return m_.real("hidden_dropout_prob"); }
  ValueId table(const std::string& file_name, int64_t rows) const {
    return b_.replicated_table(file_name, rows, width_, std_);
  }
  LinearOptions linear(const std::string& name) const {
    return {.weight = name + ".weight", .bias = name + ".bias", .init_std = std_};
  }
  // Of a head, which a model that was trained for another task lacks.
  LinearOptions head(const std::string& name) const {
    LinearOptions options = linear(name);
    options.may_be_missing = true;
    return options;
  }
  LinearOptions query_key_value(const std::string& self) const {
    LinearOptions options = linear(self + "query_key_value");
    for (const char* part : {"query", "key", "value"}) {
      options.weight_blocks.push_back(self + part + ".weight");
      options.bias_blocks.push_back(self + part + ".bias");
    }
    return options;
  }

  LayerBuilder& b_;
  const ModelValues& m_;
  ValueId lengths_, positions_;
  int64_t width_;
  double std_;
};

Model build_bert(Graph& graph, const OpRegistry& registry, const ModelValues& m, const TaskSettings& task,
                 const BatchShape& batch, ParallelLayout layout, DType dtype) {
  LayerBuilder b(graph, registry, layout, dtype, batch);
  Model model = begin_model(b, task,
                            {.prefix = "bert.",
                             .has_prefix = in_trunk,
                             .older_name = bert_older_name,
                             .passed_over = bert_passes_over,
                             .tied = {}});
  model.inputs["token_types"] = b.token_input("token_types");
  if (!task.packed) model.inputs["lengths"] = b.input("lengths", {batch.samples}, DType::kI32);
  if (batch.packed_sequences > 0)
    model.inputs["first_tokens"] = b.input("first_tokens", {batch.packed_sequences}, DType::kI32);
  if (task.task == Task::kMaskedLm)
    model.files.tied = {{"cls.predictions.decoder.weight", "embeddings.word_embeddings.weight"},
                        {"cls.predictions.decoder.bias", "cls.predictions.bias"}};
  const BertLayers layers(b, m, task.packed ? kNone : model.input("lengths"), positions_of(model, task));
  const ValueId words = layers.words();
  ValueId x = layers.embeddings(model, words);
  for (int64_t layer = 0; layer < m.integer("num_hidden_layers"); ++layer) x = layers.layer(layer, x);
  b.enter_layer(-1);
  if (task.task == Task::kMaskedLm)
    layers.masked_lm_head(x, words, model, batch);
  else
    layers.label_head(x, task, model);
  model.parameters = b.parameters();
  return model;
}

}  // namespace

ModelFamily bert_family() {
  return {.type = "bert",
          .tasks = {Task::kMaskedLm, Task::kSequenceClassification, Task::kMultipleChoice,
                    Task::kQuestionAnswering, Task::kTokenClassification},
          .adapted = {"query", "value"},
          .keys = bert_keys(),
          .fixed = {{"position_embedding_type", std::string("absolute")},
                    {"is_decoder", false},
                    {"is_causal", false},
                    {"add_cross_attention", false},
                    {"tie_word_embeddings", true}},
          .translate = bert_translate,
          .facts = bert_facts,
          .complete = bert_complete,
          .check = bert_check,
          .config_json = bert_config_json,
          .sketch = bert_sketch,
          .build = build_bert};
}

}  // namespace recollect
