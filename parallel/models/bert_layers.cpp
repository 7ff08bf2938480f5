#include "parallel/models/bert_layers.h"

#include <algorithm>
#include <initializer_list>

#include "parallel/models/encoder_labels.h"
#include "parallel/tasks/loss.h"

namespace recollect {

namespace {

bool begins_with_one_of(std::string_view name, std::initializer_list<std::string_view> all) {
  return std::any_of(all.begin(), all.end(), [&](std::string_view one) { return name.starts_with(one); });
}

bool is_of_encoder_trunk(std::string_view name) {
  return begins_with_one_of(name, {"embeddings.", "encoder.", "transformer.", "pooler."});
}

// What checkpoints of other tasks have, and buffers.
bool encoder_passes_over(std::string_view name) {
  return begins_with_one_of(name, {"embeddings.position_ids", "embeddings.token_type_ids", "cls.", "pooler.",
                                   "classifier.", "pre_classifier.", "qa_outputs.", "lm_head.",
                                   "vocab_transform.", "vocab_layer_norm.", "vocab_projector."});
}

// Files that were converted from TensorFlow's.
std::string older_encoder_name(std::string_view name) {
  for (const auto& [now, then] :
       {std::pair{".LayerNorm.weight", ".LayerNorm.gamma"}, {".LayerNorm.bias", ".LayerNorm.beta"}})
    if (name.ends_with(now))
      return std::string(name.substr(0, name.size() - std::string_view(now).size())) + then;
  return {};
}

class EncoderLayers {
 public:
  // Either of the two values is kNone.
  EncoderLayers(const EncoderKind& kind, LayerBuilder& b, const ModelValues& m, ValueId lengths,
                ValueId positions)
      : kind_(kind),
        b_(b),
        m_(m),
        lengths_(lengths),
        positions_(positions),
        width_(m.integer(kind.width)),
        std_(m.real("initializer_range")) {}

  ValueId layer(int64_t number, ValueId x) const {
    const LayerTensors& t = kind_.tensors;
    const std::string h = t.layers + std::to_string(number);
    b_.enter_layer(static_cast<int>(number));
    const AttentionOptions attention{.heads = m_.integer(kind_.heads),
                                     .head_size = width_ / m_.integer(kind_.heads),
                                     .causal = false,
                                     .lengths = lengths_,
                                     .positions = positions_,
                                     .dropout = m_.real(kind_.attention_dropout)};
    const LinearOptions projection = linear(h + t.projection);
    ValueId a = b_.self_attention("attn", x, attention, query_key_value(h));
    a = b_.row_linear("attn/proj", a, width_, width_, projection);
    a = b_.residual("attn/residual", a, x, projection.bias, dropout());
    x = norm("attn/norm", h + t.attention_norm, a);

    b_.enter_block("mlp");
    const MlpOptions mlp{.inner = m_.integer(kind_.inner),
                         .activation = gelu_form(m_.text(kind_.activation)),
                         .up = linear(h + t.up),
                         .down = linear(h + t.down)};
    a = b_.residual("mlp/residual", b_.mlp("mlp", x, mlp), x, mlp.down.bias, dropout());
    return norm("mlp/norm", h + t.norm, a);
  }

  ValueId embeddings(const Model& model, ValueId words) const {
    const ValueId ids = model.input("ids");
    const int64_t padding = m_.integer("pad_token_id");
    ValueId x = b_.vocabulary_embedding("embedding/tokens", ids, words, padding);
    if (*kind_.types)
      x = b_.token_types("embedding/types", x, model.input("token_types"),
                         b_.replicated_table("embeddings.token_type_embeddings.weight",
                                             m_.integer(kind_.types), width_, std_));
    const ValueId table =
        b_.replicated_table("embeddings.position_embeddings.weight", m_.integer("max_position_embeddings"),
                            width_, std_, *kind_.waves && m_.flag(kind_.waves));
    if (kind_.padded_positions)
      x = b_.token_types("embedding/positions", x,
                         b_.padded_positions("embedding/places", ids, positions_, padding), table, padding);
    else
      x = b_.position_embedding("embedding/positions", x, table, positions_);
    return b_.dropout("embedding/dropout", norm("embedding/norm", "embeddings.LayerNorm", x), dropout());
  }

  void masked_lm_head(ValueId x, ValueId words, const Model& model, const BatchShape& batch) const {
    const MaskedLmTensors& t = kind_.masked_lm;
    x = b_.linear("final/transform", x, width_, head(t.dense), Rows::kTokens,
                  t.erf ? "erf" : gelu_form(m_.text(kind_.activation)));
    x = norm("final/norm", t.norm, x, true);
    b_.vocabulary_head("final/head", x, words, model,
                       {.vocabulary = m_.integer("vocab_size"),
                        .bias = t.bias,
                        .bias_may_be_missing = true,
                        .most_logits = batch.most_logits});
  }

  void label_head(ValueId x, const TaskSettings& task, Model& model) const {
    const HeadDropouts& d = kind_.head_dropouts;
    switch (task.task) {
      case Task::kSequenceClassification:
        return sample_head(x, task, kind_.sequence, d.sequence, model);
      case Task::kMultipleChoice:
        return sample_head(x, task, kind_.choice, d.choice, model);
      case Task::kTokenClassification:
        return token_head(x, task, "classifier", d.token, model);
      default:
        return token_head(x, task, "qa_outputs", d.question, model);
    }
  }

  ValueId words() const {
    return b_.vocabulary_table("embeddings.word_embeddings.weight", m_.integer("vocab_size"), width_, std_);
  }

 private:
  ValueId norm(const std::string& name, const std::string& file_name, ValueId x,
               bool may_be_missing = false) const {
    return b_.norm(name, x,
                   {.weight = file_name + ".weight",
                    .bias = file_name + ".bias",
                    .epsilon = *kind_.epsilon ? m_.real(kind_.epsilon) : 1e-12,
                    .may_be_missing = may_be_missing});
  }

  void sample_head(ValueId x, const TaskSettings& task, const SampleHead& tensors, const char* dropout_key,
                   Model& model) const {
    const double p = m_.real(dropout_key);
    x = b_.first_tokens("final/first", x, task.packed ? model.input("first_tokens") : kNone);
    if (tensors.dropout_before) x = b_.dropout("final/first_dropout", x, p, Rows::kSamples);
    x = b_.linear("final/pooler", x, width_, head(tensors.dense), Rows::kSamples);
    x = tensors.relu ? b_.relu("final/relu", x) : b_.tanh("final/tanh", x);
    x = b_.dropout("final/dropout", x, p, Rows::kSamples);
    x = b_.linear("final/classifier", x, logits_of(task), head(tensors.out), Rows::kSamples);
    add_label_loss(b_, task, x, model);
  }

  void token_head(ValueId x, const TaskSettings& task, const char* out, const char* dropout_key,
                  Model& model) const {
    if (*dropout_key) x = b_.dropout("final/dropout", x, m_.real(dropout_key));
    x = b_.linear("final/classifier", x, logits_of(task), head(out), Rows::kTokens);
    add_label_loss(b_, task, b_.all_tokens("final/logits", x), model);
  }

  double dropout() const { return m_.real(kind_.dropout); }
  LinearOptions linear(const std::string& name) const {
    return {.weight = name + ".weight", .bias = name + ".bias", .init_std = std_};
  }
  // Of a head, which a model that was trained for another task lacks.
  LinearOptions head(const std::string& name) const {
    LinearOptions options = linear(name);
    options.may_be_missing = true;
    return options;
  }
  LinearOptions query_key_value(const std::string& layer) const {
    const LayerTensors& t = kind_.tensors;
    const std::string query = t.query;
    LinearOptions options = linear(layer + query.substr(0, query.rfind('.')) + ".query_key_value");
    for (const char* part : {t.query, t.key, t.value}) {
      options.weight_blocks.push_back(layer + part + ".weight");
      options.bias_blocks.push_back(layer + part + ".bias");
    }
    return options;
  }

  const EncoderKind& kind_;
  LayerBuilder& b_;
  const ModelValues& m_;
  ValueId lengths_, positions_;
  int64_t width_;
  double std_;
};

std::vector<std::pair<std::string, std::string>> tied_tensors(const MaskedLmTensors& t) {
  std::vector<std::pair<std::string, std::string>> tied = {
      {t.tied_weight, "embeddings.word_embeddings.weight"}};
  if (*t.tied_bias) tied.emplace_back(t.tied_bias, t.bias);
  return tied;
}

}  // namespace

Model build_encoder(const EncoderKind& kind, Graph& graph, const OpRegistry& registry, const ModelValues& m,
                    const TaskSettings& task, const BatchShape& batch, ParallelLayout layout, DType dtype) {
  LayerBuilder b(graph, registry, layout, dtype, batch);
  Model model = begin_model(b, task,
                            {.prefix = kind.prefix,
                             .has_prefix = is_of_encoder_trunk,
                             .older_name = older_encoder_name,
                             .passed_over = encoder_passes_over,
                             .tied = {}});
  if (*kind.types) model.inputs["token_types"] = b.token_input("token_types");
  add_encoder_inputs(b, task, batch, model);
  if (task.task == Task::kMaskedLm) model.files.tied = tied_tensors(kind.masked_lm);
  const EncoderLayers layers(kind, b, m, task.packed ? kNone : model.input("lengths"),
                             positions_of(model, task));
  const ValueId words = layers.words();
  ValueId x = layers.embeddings(model, words);
  for (int64_t layer = 0; layer < m.integer(kind.layers); ++layer) x = layers.layer(layer, x);
  b.enter_layer(-1);
  if (task.task == Task::kMaskedLm)
    layers.masked_lm_head(x, words, model, batch);
  else
    layers.label_head(x, task, model);
  model.parameters = b.parameters();
  return model;
}

}  // namespace recollect
