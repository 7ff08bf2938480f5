#include "parallel/layers.h"

#include <algorithm>

#include "engine/core/dtype.h"
#include "engine/core/statistics_dtype.h"
#include "parallel/lora.h"

namespace recollect {

namespace {

constexpr int64_t kVocabularyMultiple = 64;   // rows a rank: whole GEMM tiles
constexpr int64_t kSmallestChunk = 16;        // rows of logits at a time
constexpr int64_t kOutsideLayers = 0xffffff;  // RandomKey::layer of the model's own ops

int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// What the seam carries before any backend has a kernel for it.
void need_kernel(bool there_is_one, const std::string& op, const std::string& what) {
  if (!there_is_one) throw Error(ExitCode::kInternal, op + ": no backend has a kernel for " + what);
}

}  // namespace

LayerBuilder::LayerBuilder(Graph& graph, const OpRegistry& registry, ParallelLayout layout, DType dtype,
                           const BatchShape& batch)
    : graph_(graph),
      ops_(graph, registry),
      layout_(layout),
      dtype_(dtype),
      samples_(batch.samples),
      sequences_(batch.packed_sequences > 0 ? batch.packed_sequences : batch.samples),
      sequence_length_(batch.sequence_length),
      tokens_(batch.samples * batch.sequence_length),
      capacity_(batch.cache_capacity) {
  if (!continues()) return;
  require(!divides_tokens(), "tokens that continue a sequence are not divided");
  positions_ = token_input("positions");
  filled_ = input("filled", {2}, DType::kI32);
}

void LayerBuilder::enter_layer(int layer) {
  ops_.common().layer = layer;
  ops_.common().block.clear();
  site_ = adapter_sites_ = 0;
}

std::string LayerBuilder::path(const std::string& name) const {
  return layer() < 0 ? name : "layer" + std::to_string(layer()) + "/" + name;
}

ValueId LayerBuilder::emit(const std::string& name, const std::string& kind, Attributes attributes,
                           std::vector<ValueId> inputs, std::vector<ValueId> outputs, Accumulate accumulate) {
  Op op = ops_.make(path(name), kind, std::move(attributes), std::move(inputs), std::move(outputs));
  op.accumulate = accumulate;
  return graph_.op(graph_.add_op(std::move(op))).outputs.at(0);
}

ValueId LayerBuilder::input(const std::string& name, const Shape& shape, DType dtype) {
  return graph_.add_value({.name = "input/" + name,
                           .shape = shape,
                           .dtype = dtype,
                           .category = Category::kInput,
                           .persistent = true});
}

ValueId LayerBuilder::token_input(const std::string& name) {
  return input(name, {samples_, sequence_length_}, DType::kI32);
}

ValueId LayerBuilder::loss_scale_input(int64_t columns) { return input("scale", {columns}, DType::kF64); }

ValueId LayerBuilder::loss_accumulator() {
  return graph_.add_value({.name = "loss",
                           .shape = {1},
                           .dtype = DType::kF64,
                           .category = Category::kWorkspace,
                           .persistent = true,
                           .accumulator = true});
}

ValueId LayerBuilder::parameter(Parameter p, Category category) {
  if (p.padded_rows == 0) p.padded_rows = p.rows;
  require(p.block_names.empty() || p.block_names.size() == p.blocks.size(), "a block has no name in files");
  const int64_t rows = p.local_rows(layout_.tensor_size), columns = p.local_columns(layout_.tensor_size);
  p.saved_with_adapters = p.adapter || (lora_ && lora_->trains_whole(p));
  p.frozen = lora_ && !p.saved_with_adapters;
  store_in_fewer_bits(p);
  p.value =
      graph_.add_value({.name = p.name,
                        .shape = p.vector        ? Shape{rows}
                                 : p.is_stored() ? Shape{rows, p.stored_row(layout_.tensor_size).bytes()}
                                                 : Shape{rows, columns},
                        .dtype = p.vector        ? statistics_dtype(dtype_)
                                 : p.is_stored() ? DType::kU8
                                                 : dtype_,
                        .category = category,
                        .placement = p.split == Parameter::Split::kNone ? Placement() : part_of_ranks(),
                        .persistent = true,
                        .layer = layer()});
  std::vector<Parameter>& all = p.adapter ? adapters_ : parameters_;
  all.push_back(std::move(p));
  return all.back().value;
}

std::vector<Parameter> LayerBuilder::parameters() const {
  std::vector<Parameter> all = parameters_;
  all.insert(all.end(), adapters_.begin(), adapters_.end());
  return all;
}

ValueId LayerBuilder::whole_parameter(Parameter p, Rows rows) {
  p.partial_gradient = rows == Rows::kTokens && divides_tokens();
  return parameter(std::move(p));
}

ValueId LayerBuilder::vector_of_whole(const std::string& file_name, int64_t size, Parameter::Init init,
                                      bool may_be_missing, Rows rows) {
  return whole_parameter(
      {.name = file_name, .rows = size, .vector = true, .may_be_missing = may_be_missing, .init = init},
      rows);
}

ValueId LayerBuilder::vector_of_part(const LinearOptions& options, int64_t size, int repeats,
                                     int64_t behind) {
  return parameter({.name = options.bias,
                    .rows = size,
                    .vector = true,
                    .split = Parameter::Split::kRows,
                    .blocks = options.blocks,
                    .block_names = options.bias_blocks,
                    .interleaved = options.interleaved,
                    .repeats = repeats,
                    .init = Parameter::Init::kZero,
                    .drawn_behind = behind});
}

ValueId LayerBuilder::weight(const LinearOptions& options, int64_t out, int64_t in, Parameter::Split split,
                             int repeats, int64_t behind) {
  return parameter({.name = options.weight,
                    .rows = out,
                    .columns = in,
                    .transposed_in_file = options.transposed_in_file,
                    .split = split,
                    .blocks = options.blocks,
                    .block_names = options.weight_blocks,
                    .interleaved = options.interleaved,
                    .repeats = repeats,
                    .init = Parameter::Init::kNormal,
                    .init_std = options.init_std,
                    .init_cutoff = options.init_cutoff,
                    .linear = true,
                    .drawn_behind = behind});
}

ValueId LayerBuilder::vocabulary_table(const std::string& file_name, int64_t rows, int64_t columns,
                                       double init_std, bool may_be_missing, double init_cutoff) {
  return parameter({.name = file_name,
                    .rows = rows,
                    .columns = columns,
                    .padded_rows = round_up(rows, kVocabularyMultiple * layout_.tensor_size),
                    .split = Parameter::Split::kRows,
                    .may_be_missing = may_be_missing,
                    .init = Parameter::Init::kNormal,
                    .init_std = init_std,
                    .init_cutoff = init_cutoff});
}

ValueId LayerBuilder::replicated_table(const std::string& file_name, int64_t rows, int64_t columns,
                                       double init_std, bool waves) {
  return whole_parameter({.name = file_name,
                          .rows = rows,
                          .columns = columns,
                          .init = waves ? Parameter::Init::kWaves : Parameter::Init::kNormal,
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

int64_t LayerBuilder::first_token() const {
  return divides_tokens() ? layout_.tensor_rank * (tokens_ / layout_.tensor_size) : 0;
}

Attributes LayerBuilder::dropout_attributes(double p, Rows rows) {
  const bool tokens = rows == Rows::kTokens;
  return {{"p", p},
          {"layer", layer() < 0 ? kOutsideLayers : int64_t{layer()}},
          {"site", site_++},
          {"sequence_length", tokens ? sequence_length_ : 1},
          {"first_token", tokens ? first_token() : 0}};
}

ValueId LayerBuilder::vocabulary_embedding(const std::string& name, ValueId ids, ValueId table,
                                           int64_t padding_id) {
  Attributes attributes{{"first_row", layout_.tensor_rank * graph_.value(table).shape[0]}};
  if (padding_id >= 0) attributes.set("padding_id", padding_id);
  const ValueId part = emit(name, "embedding", std::move(attributes), {ids, table});
  return leave_parallel(name + "/sum", part);
}

ValueId LayerBuilder::position_embedding(const std::string& name, ValueId x, ValueId table,
                                         ValueId positions) {
  if (positions == kNone) positions = positions_;
  if (positions != kNone) return token_types(name, x, positions, table);
  return emit(name, "add_position", {{"sequence_length", sequence_length_}, {"first_token", first_token()}},
              {x, table});
}

ValueId LayerBuilder::padded_positions(const std::string& name, ValueId ids, ValueId places,
                                       int64_t padding_id) {
  std::vector<ValueId> inputs{ids};
  if (places != kNone) inputs.push_back(places);
  return emit(name, "token_positions", {{"padding_id", padding_id}}, std::move(inputs));
}

ValueId LayerBuilder::token_types(const std::string& name, ValueId x, ValueId ids, ValueId table,
                                  int64_t padding_id) {
  Attributes attributes{{"first_token", first_token()}};
  if (padding_id >= 0) attributes.set("padding_id", padding_id);
  return emit(name, "add_embedding", std::move(attributes), {x, ids, table});
}

ValueId LayerBuilder::sum_of_parts(const std::string& name, ValueId x) {
  if (!divides_tokens()) return x;
  graph_.value(x).placement = part_of_ranks();
  return emit(name, "all_reduce",
              {{"axis", std::string(kTensorAxis)}, {"size", int64_t{layout_.tensor_size}}}, {x});
}

ValueId LayerBuilder::first_tokens(const std::string& name, ValueId x, ValueId which) {
  std::vector<ValueId> inputs{x};
  if (which != kNone) inputs.push_back(which);
  const ValueId first =
      emit(name, "first_tokens",
           {{"samples", samples_}, {"sequence_length", sequence_length_}, {"first_token", first_token()}},
           std::move(inputs));
  return sum_of_parts(name + "/sum", first);
}

ValueId LayerBuilder::mean_tokens(const std::string& name, ValueId x, ValueId lengths, ValueId which,
                                  ValueId places) {
  const bool packed = which != kNone;
  const ValueId mean =
      emit(name, "mean_tokens",
           {{"samples", samples_}, {"sequence_length", sequence_length_}, {"first_token", first_token()}},
           packed ? std::vector{x, which, places} : std::vector{x, lengths});
  return sum_of_parts(name + "/sum", mean);
}

ValueId LayerBuilder::all_tokens(const std::string& name, ValueId x) {
  if (!divides_tokens()) return x;
  return emit(name, "gather_from_ranks",
              {{"axis", std::string(kTensorAxis)}, {"size", int64_t{layout_.tensor_size}}}, {x});
}

ValueId LayerBuilder::dropout(const std::string& name, ValueId x, double p, Rows rows) {
  const Attributes attributes = dropout_attributes(p, rows);
  return p > 0 && !continues() ? emit(name, "dropout", attributes, {x}) : x;
}

ValueId LayerBuilder::column_dropout(const std::string& name, ValueId x, double p) {
  if (p == 0 || continues()) return x;
  const int64_t columns = graph_.value(x).shape[1];
  Attributes attributes = dropout_attributes(p);
  attributes.set("first_token", int64_t{0});  // x has all of them
  attributes.set("first_column", layout_.tensor_rank * columns);
  attributes.set("all_columns", layout_.tensor_size * columns);
  return emit(name, "dropout", std::move(attributes), {x});
}

ValueId LayerBuilder::tanh(const std::string& name, ValueId x) { return emit(name, "tanh", {}, {x}); }

ValueId LayerBuilder::relu(const std::string& name, ValueId x) { return emit(name, "relu", {}, {x}); }

ValueId LayerBuilder::scaled(const std::string& name, ValueId x, double scale) {
  const int64_t width = graph_.value(x).shape[1];
  return emit(name, "scaled_columns", {{"first_column", int64_t{0}}, {"columns", width}, {"scale", scale}},
              {x});
}

ValueId LayerBuilder::norm(const std::string& name, ValueId x, const NormOptions& options) {
  const bool rms = options.kind == NormKind::kRms;
  need_kernel(!rms || options.bias.empty(), path(name), "RMS normalisation with a bias");
  const int64_t width = graph_.value(x).shape[1];
  const auto init = options.beside_one ? Parameter::Init::kZero : Parameter::Init::kOne;
  const ValueId weight = vector_of_whole(options.weight, width, init, options.may_be_missing, options.rows);
  Attributes attributes{{"epsilon", options.epsilon}};
  if (options.beside_one) attributes.set("weight_offset", 1.0);
  if (rms) return emit(name, "rms_norm", std::move(attributes), {x, weight});
  if (options.bias.empty()) return emit(name, "layer_norm", std::move(attributes), {x, weight});
  const ValueId bias =
      vector_of_whole(options.bias, width, Parameter::Init::kZero, options.may_be_missing, options.rows);
  return emit(name, "layer_norm", std::move(attributes), {x, weight, bias});
}

ValueId LayerBuilder::column_linear(const std::string& name, ValueId x, int64_t out,
                                    const LinearOptions& options) {
  const ValueId w = weight(options, out, graph_.value(x).shape[1], Parameter::Split::kRows);
  const ValueId entered = enter_parallel(name + "/enter", x);
  const ValueId y = product(name, entered, w, options.bias.empty() ? kNone : vector_of_part(options, out));
  return with_adapters(name, options, {.x = entered, .y = y, .split = Parameter::Split::kRows});
}

ValueId LayerBuilder::row_linear(const std::string& name, ValueId x, int64_t in, int64_t out,
                                 const LinearOptions& options) {
  const ValueId w = weight(options, out, in, Parameter::Split::kColumns);
  const ValueId part = product(name, x, w);
  graph_.value(part).placement = part_of_ranks();
  const ValueId adapted =
      with_adapters(name, options, {.x = x, .y = part, .split = Parameter::Split::kColumns});
  return leave_parallel(name + "/sum", adapted);
}

ValueId LayerBuilder::linear(const std::string& name, ValueId x, int64_t out, const LinearOptions& options,
                             Rows rows, const std::string& gelu_form) {
  const ValueId w = whole_parameter({.name = options.weight,
                                     .rows = out,
                                     .columns = graph_.value(x).shape[1],
                                     .may_be_missing = options.may_be_missing,
                                     .init = Parameter::Init::kNormal,
                                     .init_std = options.init_std,
                                     .init_cutoff = options.init_cutoff,
                                     .linear = true},
                                    rows);
  const ValueId bias = options.bias.empty() ? kNone
                                            : vector_of_whole(options.bias, out, Parameter::Init::kZero,
                                                              options.may_be_missing, rows);
  const bool joined = gelu_form.empty() && bias != kNone;
  const ValueId read = operand(name, w);
  ValueId y = emit(name, "linear", {}, joined ? std::vector{x, read, bias} : std::vector{x, read});
  y = with_adapters(name, options, {.x = x, .y = y, .rows = rows});
  if (gelu_form.empty()) return y;
  if (bias == kNone) return emit(name + "/gelu", "gelu", {{"form", gelu_form}}, {y});
  return emit(name + "/gelu", "bias_gelu", {{"form", gelu_form}}, {y, bias});
}

// Weights, then biases, as where they are one linear: the layout of ranks changes neither what is drawn nor the
// order of files.
std::pair<ValueId, ValueId> LayerBuilder::repeated_projections(const std::string& name, ValueId x,
                                                               const AttentionOptions& options,
                                                               const LinearOptions& projections) {
  require(projections.weight_blocks.size() == 3, path(name) + ": queries and keys are one tensor in files");
  const std::vector<int64_t> blocks = options.blocks();
  const auto repeats = static_cast<int>(layout_.tensor_size / options.key_heads());
  LinearOptions queries = projections, keys = projections;
  queries.weight = projections.weight_blocks[0];
  queries.weight_blocks.clear();
  keys.weight_blocks.erase(keys.weight_blocks.begin());
  keys.blocks = {blocks[1], blocks[2]};
  x = enter_parallel(name + "/enter", x);
  const int64_t width = graph_.value(x).shape[1], shared = blocks[1] + blocks[2];
  const ValueId wq = weight(queries, blocks[0], width, Parameter::Split::kRows);
  parameters_.back().least_rows_beside = std::min(blocks[1], blocks[2]);
  const ValueId wkv = weight(keys, shared, width, Parameter::Split::kRows, repeats, blocks[0]);
  parameters_.back().least_rows_beside = blocks[0];
  ValueId q_bias = kNone, kv_bias = kNone;
  if (!projections.bias.empty()) {
    queries.bias = projections.bias_blocks[0];
    queries.bias_blocks.clear();
    keys.bias_blocks.erase(keys.bias_blocks.begin());
    q_bias = vector_of_part(queries, blocks[0]);
    kv_bias = vector_of_part(keys, shared, repeats, blocks[0]);
  }
  const ValueId own = product(name + "/q", x, wq, q_bias), both = product(name + "/kv", x, wkv, kv_bias);
  const Adapted layer{.x = x, .y = own, .split = Parameter::Split::kRows};
  Adapted key_layer = layer;
  key_layer.y = both, key_layer.repeats = repeats;
  const ValueId adapted = with_adapters(name + "/q", queries, layer);
  return {adapted, with_adapters(name + "/kv", keys, key_layer)};
}

ValueId LayerBuilder::mlp(const std::string& name, ValueId x, const MlpOptions& options) {
  need_kernel(options.gated || !options.up.bias.empty(), path(name), "an activation without a bias");
  const int64_t width = graph_.value(x).shape[1];
  LinearOptions up = options.up;
  if (options.gated) {
    up.blocks = {options.inner, options.inner};
    x = column_linear(name + "/fc1", x, 2 * options.inner, up);
    x = options.gelu_gate ? emit(name + "/geglu", "geglu", {{"form", options.activation}}, {x})
                          : emit(name + "/swiglu", "swiglu", {}, {x});
    x = column_dropout(name + "/dropout", x, options.dropout);
    return row_linear(name + "/fc2", x, options.inner, width, options.down);
  }
  if (makes_gelu_in_product(options)) {
    x = column_linear_gelu(name + "/fc1", x, options.inner, up);
    return row_linear(name + "/fc2", x, options.inner, width, options.down);
  }
  up.bias.clear();  // it is added together with the activation
  x = column_linear(name + "/fc1", x, options.inner, up);
  const ValueId bias = vector_of_part(options.up, options.inner);
  x = emit(name + "/gelu", "bias_gelu", {{"form", options.activation}}, {x, bias});
  return row_linear(name + "/fc2", x, options.inner, width, options.down);
}

ValueId LayerBuilder::residual(const std::string& name, ValueId branch, ValueId residual,
                               const std::string& bias, double p) {
  if (bias.empty()) return emit(name, "add", {}, {dropout(name + "/dropout", branch, p), residual});
  const ValueId b = vector_of_whole(bias, graph_.value(branch).shape[1], Parameter::Init::kZero);
  return emit(name, "bias_dropout_add", dropout_attributes(p), {branch, b, residual});
}

// The vocabulary's parts stand behind one another in the order of the ranks.
ValueId LayerBuilder::last_logits(const std::string& name, ValueId x, ValueId table,
                                  const LossOptions& options) {
  need_kernel(options.bias.empty(), path(name), "logits with a bias");
  const int64_t rows = graph_.value(table).shape[0];
  const ValueId logits = graph_.add_value({.name = "logits",
                                           .shape = {rows * layout_.tensor_size},
                                           .dtype = statistics_dtype(dtype_),
                                           .category = Category::kWorkspace,
                                           .persistent = true});
  Attributes attributes;
  if (options.logit_cap > 0) attributes.set("logit_cap", options.logit_cap);
  if (!parallel()) return emit(name, "lm_logits", std::move(attributes), {x, table, filled_}, {logits});
  const ValueId part = emit(name, "lm_logits", std::move(attributes), {x, table, filled_});
  return emit(name + "/all", "gather_from_ranks",
              {{"axis", std::string(kTensorAxis)}, {"size", int64_t{layout_.tensor_size}}}, {part}, {logits});
}

ValueId LayerBuilder::vocabulary_head(const std::string& name, ValueId x, ValueId table, const Model& model,
                                      const LossOptions& options) {
  if (continues()) return last_logits(name, x, table, options);
  const int64_t rows = graph_.value(table).shape[0];
  std::vector<ValueId> inputs{enter_parallel(name + "/enter", x), table, model.input("targets"), model.scale};
  if (!options.bias.empty())
    inputs.push_back(parameter({.name = options.bias,
                                .rows = options.vocabulary,
                                .padded_rows = rows * layout_.tensor_size,
                                .vector = true,
                                .split = Parameter::Split::kRows,
                                .may_be_missing = options.bias_may_be_missing,
                                .init = Parameter::Init::kZero}));
  Attributes attributes{{"vocabulary_size", options.vocabulary},
                        {"first_row", layout_.tensor_rank * rows},
                        {"gradient", int64_t{0}}};
  if (options.logit_cap > 0) attributes.set("logit_cap", options.logit_cap);
  const int64_t chunk =
      std::clamp(round_up(tokens_ / 2, kSmallestChunk), kSmallestChunk, options.most_logits);
  attributes.set("chunk_rows", chunk);
  emit(name, "lm_head_loss", std::move(attributes), std::move(inputs), {model.loss},
       Accumulate::kAfterFirstMicroBatch);
  return kNone;
}

void LayerBuilder::label_loss(const std::string& name, const std::string& kind, Attributes attributes,
                              std::vector<ValueId> inputs, ValueId loss) {
  attributes.set("gradient", int64_t{0});
  emit(name, kind, std::move(attributes), std::move(inputs), {loss}, Accumulate::kAfterFirstMicroBatch);
}

}  // namespace recollect
