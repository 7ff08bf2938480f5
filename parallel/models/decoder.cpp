// The graph of a decoder.
#include "parallel/models/decoder.h"

#include <cmath>

#include "engine/core/dtype.h"
#include "parallel/models/keys.h"
#include "parallel/tasks/loss.h"

namespace recollect {

namespace {

// Rounded as in Transformers: to fp32, then to the dtype of the table.
double embedding_scale(int64_t width, DType dtype) {
  const auto scale = static_cast<float>(std::sqrt(static_cast<double>(width)));
  if (dtype == DType::kBF16) return float{bf16(scale)};
  if (dtype == DType::kF16) return float{f16(scale)};
  return scale;
}

class DecoderLayers {
 public:
  DecoderLayers(LayerBuilder& b, const DecoderFamily& family, const ModelValues& m, ValueId positions)
      : b_(b),
        family_(family),
        names_(family.names),
        m_(m),
        width_(m.integer("hidden_size")),
        biases_(flag_or(m, "attention_bias", false)),
        mlp_biases_(flag_or(m, "mlp_bias", family.mlp_biases)),
        dropout_(real_or(m, "resid_pdrop", real_or(m, "hidden_dropout", 0))),
        attention_{.heads = m.integer("num_attention_heads"),
                   .head_size = decoder_head_size(family, m),
                   .kv_heads = family.shared_heads ? m.integer("num_key_value_heads") : 0,
                   .positions = positions,
                   .norms_beside_one = family.norms_beside_one,
                   .dropout = m.real("attention_dropout"),
                   .score_cap = real_or(m, "attn_logit_softcapping", 0)} {
    if (m.has("query_pre_attn_scalar"))
      attention_.score_scale = 1 / std::sqrt(m.real("query_pre_attn_scalar"));
    if (family.head_norms) attention_.norm_epsilon = m.real("rms_norm_eps");
    for (int64_t layer = 0; layer < m.integer("num_hidden_layers"); ++layer) make_table(layer);
  }

  ValueId norm(const std::string& name, const std::string& file_name, ValueId x) const {
    if (family_.layer_norms)
      return b_.norm(name, x,
                     {.weight = file_name + ".weight",
                      .bias = file_name + ".bias",
                      .epsilon = m_.real("layer_norm_eps")});
    return b_.norm(name, x,
                   {.kind = NormKind::kRms,
                    .weight = file_name + ".weight",
                    .epsilon = m_.real("rms_norm_eps"),
                    .beside_one = family_.norms_beside_one});
  }

  ValueId layer(int64_t number, ValueId x) const {
    const std::string h = "layers." + std::to_string(number), attn = h + "." + names_.attention;
    b_.enter_layer(static_cast<int>(number));
    LinearOptions projections = parts(attn, {"q_proj", "k_proj", "v_proj"}, names_.query_key_value,
                                      biases_ || family_.query_key_value_bias);
    if (family_.interleaved) projections.interleaved = attention_.head_size;
    const LinearOptions projection = linear(attn + "." + names_.attention_out, biases_);
    ValueId a = norm("attn/norm", h + ".input_layernorm", x);
    a = b_.self_attention("attn", a, attention_of(number, attn), projections);
    a = b_.row_linear("attn/proj", a, attention_.heads * attention_.head_size, width_, projection);
    if (family_.norms_after) a = norm("attn/post_norm", h + ".post_attention_layernorm", a);
    const ValueId attended = b_.residual("attn/residual", a, x, projection.bias, dropout_);

    b_.enter_block("mlp");
    const MlpOptions mlp = mlp_of(h + ".mlp");
    a = norm("mlp/norm",
             h + (family_.norms_after ? ".pre_feedforward_layernorm" : ".post_attention_layernorm"),
             flag_or(m_, "use_parallel_residual", false) ? x : attended);
    a = b_.mlp("mlp", a, mlp);
    if (family_.norms_after) a = norm("mlp/post_norm", h + ".post_feedforward_layernorm", a);
    return b_.residual("mlp/residual", a, attended, mlp.down.bias, dropout_);
  }

 private:
  struct Table {
    RotaryOptions options;
    ValueId value = kNone;
  };

  RotaryOptions rotary_of(int64_t layer) const {
    const bool local = family_.local_rope && has_window(family_, m_, layer);
    return rotary_options(local ? *family_.local_rope : family_.rope, m_, attention_.head_size);
  }
  // Layers whose positions rotate alike share a table.
  ValueId table_of(int64_t layer) const {
    for (const Table& table : tables_)
      if (table.options == rotary_of(layer)) return table.value;
    return kNone;
  }
  void make_table(int64_t layer) {
    if (table_of(layer) != kNone) return;
    const RotaryOptions options = rotary_of(layer);
    const std::string name = tables_.empty() ? "rotary" : "rotary" + std::to_string(tables_.size() + 1);
    tables_.push_back({options, b_.rotary_table(name, options, attention_.positions)});
  }

  AttentionOptions attention_of(int64_t layer, const std::string& name) const {
    AttentionOptions attention = attention_;
    attention.rotary_table = table_of(layer);
    if (has_window(family_, m_, layer)) attention.window = m_.integer("sliding_window");
    if (family_.head_norms) {
      attention.query_norm = name + ".q_norm.weight";
      attention.key_norm = name + ".k_norm.weight";
    }
    return attention;
  }

  MlpOptions mlp_of(const std::string& name) const {
    MlpOptions mlp{.inner = m_.integer("intermediate_size"),
                   .gated = !family_.gate.empty(),
                   .gelu_gate = !family_.gate.empty() && family_.gate != "silu",
                   .up = parts(name, {"gate_proj", "up_proj"}, names_.mlp_in, mlp_biases_),
                   .down = linear(name + "." + names_.mlp_out, mlp_biases_)};
    if (!mlp.gated) mlp.activation = gelu_form(m_.text("hidden_act"));
    return mlp;
  }

  LinearOptions linear(const std::string& name, bool bias) const {
    return {.weight = name + ".weight",
            .bias = bias ? name + ".bias" : "",
            .init_std = m_.real("initializer_range")};
  }
  // A weight that is several tensors in files, one after the other, or the single tensor `fused`.
  LinearOptions parts(const std::string& name, const std::vector<const char*>& names, const char* fused,
                      bool bias) const {
    if (fused) return linear(name + "." + fused, bias);
    LinearOptions options = linear(name, bias);
    for (const char* part : names) {
      options.weight_blocks.push_back(name + "." + part + ".weight");
      if (bias) options.bias_blocks.push_back(name + "." + part + ".bias");
    }
    return options;
  }

  LayerBuilder& b_;
  const DecoderFamily& family_;
  const DecoderNames& names_;
  const ModelValues& m_;
  int64_t width_;
  bool biases_, mlp_biases_;
  double dropout_;
  AttentionOptions attention_;
  std::vector<Table> tables_;
};

// Heads have no prefix.
bool has_prefix(std::string_view name) { return name != "lm_head.weight" && name != "embed_out.weight"; }

}  // namespace

Model build_decoder(const DecoderFamily& family, Graph& graph, const OpRegistry& registry,
                    const ModelValues& m, const TaskSettings& task, const BatchShape& batch,
                    ParallelLayout layout, DType dtype) {
  LayerBuilder b(graph, registry, layout, dtype, batch);
  const DecoderNames& names = family.names;
  const std::string table = std::string(names.tokens) + ".weight", head = std::string(names.head) + ".weight";
  Model model = begin_model(b, task,
                            {.prefix = names.prefix,
                             .has_prefix = has_prefix,
                             .older_name = names.older,
                             .passed_over = names.passed_over,
                             .tied = {}});
  const bool tied = m.flag("tie_word_embeddings");
  if (tied) model.files.tied = {{head, table}};
  const int64_t vocabulary = m.integer("vocab_size"), width = m.integer("hidden_size");
  const double std = m.real("initializer_range");
  const DecoderLayers layers(b, family, m, positions_of(model, task));
  if (b.length() != kNone) model.inputs["length"] = b.length();
  const ValueId words = b.vocabulary_table(table, vocabulary, width, std);
  ValueId x = b.vocabulary_embedding("embedding/tokens", model.input("ids"), words,
                                     family.shared_heads ? m.integer("pad_token_id") : -1);
  if (family.scaled_embeddings) x = b.scaled("embedding/scaled", x, embedding_scale(width, dtype));
  if (m.has("hidden_dropout")) x = b.dropout("embedding/dropout", x, m.real("hidden_dropout"));
  for (int64_t layer = 0; layer < m.integer("num_hidden_layers"); ++layer) x = layers.layer(layer, x);
  b.enter_layer(-1);
  x = layers.norm("final/norm", names.final_norm, x);
  const ValueId weights =
      tied ? words : b.vocabulary_table(head, vocabulary, width, std, /*may_be_missing=*/true);
  model.logits = b.vocabulary_head("final/head", x, weights, model,
                                   {.vocabulary = vocabulary,
                                    .logit_cap = real_or(m, "final_logit_softcapping", 0),
                                    .most_logits = batch.most_logits});
  model.parameters = b.parameters();
  return model;
}

}  // namespace recollect
