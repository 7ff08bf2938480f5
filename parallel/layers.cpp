#include "parallel/layers.h"

#include <algorithm>

namespace recollect {

namespace {

constexpr int64_t kVocabularyMultiple = 64;   // rows a rank: whole GEMM tiles
constexpr int64_t kSmallestChunk = 16;        // rows of logits at a time
constexpr int64_t kOutsideLayers = 0xffffff;  // RandomKey::layer of the model's own ops

int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

DType statistics_dtype(DType a) { return a == DType::kF64 ? DType::kF64 : DType::kF32; }

}  // namespace

LayerBuilder::LayerBuilder(Graph& graph, const OpRegistry& registry, ParallelLayout layout, DType dtype,
                           int64_t samples, int64_t sequence_length)
    : graph_(graph),
      registry_(registry),
      layout_(layout),
      dtype_(dtype),
      sequence_length_(sequence_length),
      tokens_(samples * sequence_length) {}

void LayerBuilder::enter_layer(int layer) {
  layer_ = layer;
  block_.clear();
  site_ = 0;
}

std::string LayerBuilder::path(const std::string& name) const {
  return layer_ < 0 ? name : "layer" + std::to_string(layer_) + "/" + name;
}

ValueId LayerBuilder::emit(const std::string& name, const std::string& kind, Attributes attributes,
                           std::vector<ValueId> inputs, std::vector<ValueId> outputs, Accumulate accumulate) {
  const OpId id = graph_.add_op({.def = registry_.find(kind),
                                 .name = path(name),
                                 .attributes = std::move(attributes),
                                 .inputs = std::move(inputs),
                                 .outputs = std::move(outputs),
                                 .layer = layer_,
                                 .block = block_,
                                 .phase = Phase::kForward,
                                 .accumulate = accumulate});
  return graph_.op(id).outputs.at(0);
}

ValueId LayerBuilder::parameter(Parameter p, Category category) {
  if (p.padded_rows == 0) p.padded_rows = p.rows;
  const int64_t rows = p.local_rows(layout_.tensor_size), columns = p.local_columns(layout_.tensor_size);
  p.value = graph_.add_value({.name = p.name,
                              .shape = p.vector ? Shape{rows} : Shape{rows, columns},
                              .dtype = p.vector ? statistics_dtype(dtype_) : dtype_,
                              .category = category,
                              .placement = p.split == Parameter::Split::kNone ? Placement() : part_of_ranks(),
                              .persistent = true,
                              .layer = layer_});
  parameters_.push_back(std::move(p));
  return parameters_.back().value;
}

ValueId LayerBuilder::vector_parameter(const std::string& file_name, int64_t size, Parameter::Init init,
                                       Parameter::Split split, int blocks, bool sees_part_of_tokens) {
  return parameter({.name = file_name,
                    .rows = size,
                    .vector = true,
                    .split = split,
                    .blocks = blocks,
                    .partial_gradient = sees_part_of_tokens && layout_.sequence_parallel && parallel(),
                    .init = init});
}

ValueId LayerBuilder::vocabulary_table(const std::string& file_name, int64_t rows, int64_t columns,
                                       double init_std) {
  return parameter({.name = file_name,
                    .rows = rows,
                    .columns = columns,
                    .padded_rows = round_up(rows, kVocabularyMultiple * layout_.tensor_size),
                    .split = Parameter::Split::kRows,
                    .init = Parameter::Init::kNormal,
                    .init_std = init_std});
}

ValueId LayerBuilder::replicated_table(const std::string& file_name, int64_t rows, int64_t columns,
                                       double init_std) {
  return parameter({.name = file_name,
                    .rows = rows,
                    .columns = columns,
                    .partial_gradient = layout_.sequence_parallel && parallel(),
                    .init = Parameter::Init::kNormal,
                    .init_std = init_std});
}

ValueId LayerBuilder::enter_parallel(const std::string& name, ValueId x) {
  if (!parallel()) return x;
  return emit(name, layout_.sequence_parallel ? "all_gather" : "copy_to_ranks",
              {{"axis", std::string(kTensorAxis)}, {"size", int64_t{layout_.tensor_size}}}, {x});
}

ValueId LayerBuilder::leave_parallel(const std::string& name, ValueId x) {
  if (!parallel()) return x;
  return emit(name, layout_.sequence_parallel ? "reduce_scatter" : "all_reduce",
              {{"axis", std::string(kTensorAxis)}, {"size", int64_t{layout_.tensor_size}}}, {x});
}

Attributes LayerBuilder::dropout_attributes(double p) {
  const int64_t first =
      layout_.sequence_parallel && parallel() ? layout_.tensor_rank * (tokens_ / layout_.tensor_size) : 0;
  return {{"p", p},
          {"layer", layer_ < 0 ? kOutsideLayers : int64_t{layer_}},
          {"site", site_++},
          {"sequence_length", sequence_length_},
          {"first_token", first}};
}

ValueId LayerBuilder::vocabulary_embedding(const std::string& name, ValueId ids, ValueId table) {
  const int64_t rows = graph_.value(table).shape[0];
  const ValueId part = emit(name, "embedding", {{"first_row", layout_.tensor_rank * rows}}, {ids, table});
  return leave_parallel(name + "/sum", part);
}

ValueId LayerBuilder::position_embedding(const std::string& name, ValueId x, ValueId table) {
  const int64_t first =
      layout_.sequence_parallel && parallel() ? layout_.tensor_rank * (tokens_ / layout_.tensor_size) : 0;
  return emit(name, "add_position", {{"sequence_length", sequence_length_}, {"first_token", first}},
              {x, table});
}

ValueId LayerBuilder::dropout(const std::string& name, ValueId x, double p) {
  const Attributes attributes = dropout_attributes(p);
  return p > 0 ? emit(name, "dropout", attributes, {x}) : x;
}

ValueId LayerBuilder::norm(const std::string& name, const std::string& file_name, ValueId x, double epsilon) {
  const int64_t width = graph_.value(x).shape[1];
  const ValueId weight =
      vector_parameter(file_name + ".weight", width, Parameter::Init::kOne, Parameter::Split::kNone, 1, true);
  const ValueId bias =
      vector_parameter(file_name + ".bias", width, Parameter::Init::kZero, Parameter::Split::kNone, 1, true);
  return emit(name, "layer_norm", {{"epsilon", epsilon}}, {x, weight, bias});
}

ValueId LayerBuilder::column_linear(const std::string& name, const std::string& file_name, ValueId x,
                                    int64_t out, int blocks, double init_std, bool bias) {
  const int64_t in = graph_.value(x).shape[1];
  const ValueId weight = parameter({.name = file_name + ".weight",
                                    .rows = out,
                                    .columns = in,
                                    .transposed_in_file = true,
                                    .split = Parameter::Split::kRows,
                                    .blocks = blocks,
                                    .init = Parameter::Init::kNormal,
                                    .init_std = init_std});
  std::vector<ValueId> inputs{enter_parallel(name + "/enter", x), weight};
  if (bias)
    inputs.push_back(vector_parameter(file_name + ".bias", out, Parameter::Init::kZero,
                                      Parameter::Split::kRows, blocks, false));
  return emit(name, "linear", {}, std::move(inputs));
}

ValueId LayerBuilder::row_linear(const std::string& name, const std::string& file_name, ValueId x, int64_t in,
                                 int64_t out, double init_std) {
  const ValueId weight = parameter({.name = file_name + ".weight",
                                    .rows = out,
                                    .columns = in,
                                    .transposed_in_file = true,
                                    .split = Parameter::Split::kColumns,
                                    .init = Parameter::Init::kNormal,
                                    .init_std = init_std});
  const ValueId part = emit(name, "linear", {}, {x, weight});
  graph_.value(part).placement = part_of_ranks();
  return leave_parallel(name + "/sum", part);
}

ValueId LayerBuilder::causal_attention(const std::string& name, ValueId qkv, int64_t heads, int64_t head_size,
                                       double p) {
  const int64_t local = heads / layout_.tensor_size;
  return emit(name, "attention",
              {{"heads", local},
               {"head_size", head_size},
               {"sequence_length", sequence_length_},
               {"first_head", layout_.tensor_rank * local},
               {"all_heads", heads},
               {"p", p},
               {"layer", int64_t{layer_}},
               {"site", site_++}},
              {qkv});
}

ValueId LayerBuilder::bias_gelu(const std::string& name, const std::string& file_name, ValueId x,
                                int64_t width, const std::string& form) {
  const ValueId bias =
      vector_parameter(file_name + ".bias", width, Parameter::Init::kZero, Parameter::Split::kRows, 1, false);
  return emit(name, "bias_gelu", {{"form", form}}, {x, bias});
}

ValueId LayerBuilder::residual(const std::string& name, const std::string& file_name, ValueId branch,
                               ValueId residual, double p) {
  const ValueId bias = vector_parameter(file_name + ".bias", graph_.value(branch).shape[1],
                                        Parameter::Init::kZero, Parameter::Split::kNone, 1, true);
  return emit(name, "bias_dropout_add", dropout_attributes(p), {branch, bias, residual});
}

void LayerBuilder::vocabulary_loss(const std::string& name, ValueId x, ValueId table, ValueId labels,
                                   ValueId scale, ValueId loss, int64_t vocabulary_size,
                                   int64_t most_logits) {
  const int64_t rows = graph_.value(table).shape[0];
  const int64_t chunk = std::clamp(round_up(tokens_ / 2, kSmallestChunk), kSmallestChunk, most_logits);
  emit(name, "lm_head_loss",
       {{"vocabulary_size", vocabulary_size},
        {"first_row", layout_.tensor_rank * rows},
        {"chunk_rows", chunk},
        {"gradient", int64_t{0}}},
       {enter_parallel(name + "/enter", x), table, labels, scale}, {loss}, Accumulate::kAfterFirstMicroBatch);
}

}  // namespace recollect
