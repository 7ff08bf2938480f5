// GPT-2 (Radford et al., 2019) with the semantics of Hugging Face's GPT2LMHeadModel: learned positions,
// pre-norm blocks, three dropouts, tied head, labels shifted inside, -100 ignored.
#pragma once

#include <string>
#include <vector>

#include "parallel/layers.h"

namespace recollect {

struct Gpt2Shape {
  int64_t vocabulary = 50257;
  int64_t positions = 1024;
  int64_t hidden = 768;
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t inner = 3072;
  std::string gelu = "tanh";  // or "erf"
  double residual_dropout = 0.1, embedding_dropout = 0.1, attention_dropout = 0.1;
  double norm_epsilon = 1e-5;
  double init_std = 0.02;
};

struct BatchShape {
  int64_t samples = 1;
  int64_t sequence_length = 1;
  int64_t most_logits = 1024;  // rows of logits that exist at a time
};

// The forward graph and the handles that a trainer needs.
struct LanguageModel {
  ValueId ids = kNone;     // [samples, sequence] i32
  ValueId labels = kNone;  // [samples, sequence] i32
  ValueId scale = kNone;   // [1] f64: 1 / valid targets of the whole step
  ValueId loss = kNone;    // [1] f64 accumulator: this data rank's share of the step's mean loss
  std::vector<Parameter> parameters;
};

LanguageModel build_gpt2(Graph& graph, const OpRegistry& registry, const Gpt2Shape& shape,
                         const BatchShape& batch, ParallelLayout layout, DType dtype);

}  // namespace recollect
