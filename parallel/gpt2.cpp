#include "parallel/gpt2.h"

#include <cmath>

namespace recollect {

namespace {

ValueId block(LayerBuilder& b, const Gpt2Shape& shape, int64_t layer, ValueId x) {
  const std::string h = "h." + std::to_string(layer);
  const double std = shape.init_std,
               projection_std = std / std::sqrt(2.0 * static_cast<double>(shape.layers));
  b.enter_layer(static_cast<int>(layer));

  ValueId a = b.norm("attn/norm", h + ".ln_1", x, shape.norm_epsilon);
  a = b.column_linear("attn/qkv", h + ".attn.c_attn", a, 3 * shape.hidden, 3, std, true);
  a = b.causal_attention("attn/core", a, shape.heads, shape.hidden / shape.heads, shape.attention_dropout);
  a = b.row_linear("attn/proj", h + ".attn.c_proj", a, shape.hidden, shape.hidden, projection_std);
  x = b.residual("attn/residual", h + ".attn.c_proj", a, x, shape.residual_dropout);

  b.enter_block("mlp");
  ValueId m = b.norm("mlp/norm", h + ".ln_2", x, shape.norm_epsilon);
  m = b.column_linear("mlp/fc1", h + ".mlp.c_fc", m, shape.inner, 1, std, false);
  m = b.bias_gelu("mlp/gelu", h + ".mlp.c_fc", m, shape.inner, shape.gelu);
  m = b.row_linear("mlp/fc2", h + ".mlp.c_proj", m, shape.inner, shape.hidden, projection_std);
  return b.residual("mlp/residual", h + ".mlp.c_proj", m, x, shape.residual_dropout);
}

}  // namespace

LanguageModel build_gpt2(Graph& graph, const OpRegistry& registry, const Gpt2Shape& shape,
                         const BatchShape& batch, ParallelLayout layout, DType dtype) {
  LayerBuilder b(graph, registry, layout, dtype, batch.samples, batch.sequence_length);
  const auto input = [&](const char* name, Shape s, DType t) {
    return graph.add_value(
        {.name = name, .shape = s, .dtype = t, .category = Category::kInput, .persistent = true});
  };
  LanguageModel model;
  model.ids = input("input/ids", {batch.samples, batch.sequence_length}, DType::kI32);
  model.labels = input("input/labels", {batch.samples, batch.sequence_length}, DType::kI32);
  model.scale = input("input/scale", {1}, DType::kF64);
  model.loss = graph.add_value({.name = "loss",
                                .shape = {1},
                                .dtype = DType::kF64,
                                .category = Category::kWorkspace,
                                .persistent = true,
                                .accumulator = true});

  const ValueId wte = b.vocabulary_table("wte.weight", shape.vocabulary, shape.hidden, shape.init_std);
  const ValueId wpe = b.replicated_table("wpe.weight", shape.positions, shape.hidden, shape.init_std);
  ValueId x = b.vocabulary_embedding("embedding/tokens", model.ids, wte);
  x = b.position_embedding("embedding/positions", x, wpe);
  x = b.dropout("embedding/dropout", x, shape.embedding_dropout);
  for (int64_t layer = 0; layer < shape.layers; ++layer) x = block(b, shape, layer, x);
  b.enter_layer(-1);
  x = b.norm("final/norm", "ln_f", x, shape.norm_epsilon);
  b.vocabulary_loss("final/head", x, wte, model.labels, model.scale, model.loss, shape.vocabulary,
                    batch.most_logits);
  model.parameters = b.parameters();
  return model;
}

}  // namespace recollect
