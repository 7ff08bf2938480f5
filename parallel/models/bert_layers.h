// Encoders of BERT's kind: learned positions, post-norm blocks, attention to the first `lengths` tokens of a sample, and heads of
// masked language modelling (tied to the token embedding), classes, choices and spans. A family is a row that says how its keys
// and tensors are called, and what it does otherwise.
#pragma once

#include <string_view>

#include "parallel/models/family.h"

namespace recollect {

// The key of the dropout before a classifier, by its task; "": there is none.
struct HeadDropouts {
  const char *sequence, *choice, *token, *question;
};
struct LayerTensors {
  const char *layers, *query, *key, *value, *projection, *attention_norm, *up, *down, *norm;
};
struct MaskedLmTensors {
  const char *dense, *norm, *bias, *tied_weight, *tied_bias;  // tied_bias "": files have none
  bool erf = false;                                           // GELU's form, whatever the layers' is
};
// A classifier of samples reads activation(dense(first token)).
struct SampleHead {
  const char *dense, *out;
  bool relu = false;  // else tanh
  bool dropout_before = false;
};

// BERT's, but for what has to be given.
struct EncoderKind {
  std::string_view type;  // model.type; a literal, as all texts here
  const char* classes;    // what its classes' names in Transformers begin with
  const char* prefix;     // of the trunk's tensors

  const char* width = "hidden_size";
  const char* layers = "num_hidden_layers";
  const char* heads = "num_attention_heads";
  const char* inner = "intermediate_size";
  const char* activation = "hidden_act";
  const char* dropout = "hidden_dropout_prob";
  const char* attention_dropout = "attention_probs_dropout_prob";
  HeadDropouts head_dropouts = {"classifier_dropout", "classifier_dropout", "classifier_dropout", ""};
  const char* epsilon = "layer_norm_eps";  // "": 1e-12
  const char* types = "type_vocab_size";   // "": it has no token types
  const char* waves = "";                  // whether positions begin as sines and cosines; "": they do not
  // Padding has the position pad_token_id, and tokens count on from the one behind it.
  bool padded_positions = false;

  LayerTensors tensors = {"encoder.layer.",        ".attention.self.query",   ".attention.self.key",
                          ".attention.self.value", ".attention.output.dense", ".attention.output.LayerNorm",
                          ".intermediate.dense",   ".output.dense",           ".output.LayerNorm"};
  MaskedLmTensors masked_lm = {"cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
                               "cls.predictions.bias", "cls.predictions.decoder.weight",
                               "cls.predictions.decoder.bias"};
  SampleHead sequence = {"pooler.dense", "classifier"}, choice = {"pooler.dense", "classifier"};
};

Model build_encoder(const EncoderKind& kind, Graph& graph, const OpRegistry& registry, const ModelValues& m,
                    const TaskSettings& task, const BatchShape& batch, ParallelLayout layout, DType dtype);

}  // namespace recollect
