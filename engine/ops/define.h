// Helpers for op definitions: checks whose Errors name the op, and outputs that resemble inputs.
#pragma once

#include <string>
#include <vector>

#include "engine/core/statistics_dtype.h"
#include "engine/graph/differentiate.h"
#include "engine/graph/op_def.h"

namespace recollect::ops {

inline void check(bool condition, const OpView& view, const std::string& what) {
  if (!condition)
    throw Error(ExitCode::kInternal, view.op.name + " (" + view.op.def->name + "): " + what,
                "this is a bug in recollect");
}

inline void check_shape(const OpView& view, const Value& value, const Shape& expected) {
  check(value.shape == expected, view,
        value.name + " is " + value.shape.to_string() + ", expected " + expected.to_string());
}

// Returns an output with the shape, dtype and placement of `value`.
inline OutputSpec like(const Value& value, std::string suffix = {}) {
  return {
      .shape = value.shape, .dtype = value.dtype, .suffix = std::move(suffix), .placement = value.placement};
}

inline OutputSpec gradient_like(const Value& parameter, std::string suffix = {}) {
  return {.shape = parameter.shape,
          .dtype = statistics_dtype(parameter.dtype),
          .suffix = std::move(suffix),
          .placement = parameter.placement};
}

// Checks the bias of an op that begins by adding it to rows.
inline void check_bias(const OpView& v, const Value& x, const Value& bias) {
  check(x.shape.rank() == 2, v, "x is [tokens, width]");
  check_shape(v, bias, {x.shape[1]});
  check(bias.dtype == statistics_dtype(x.dtype), v, "the bias has the statistics dtype");
}

inline OutputSpec bias_gradient(const Value& dy) {
  return {.shape = {dy.shape[1]}, .dtype = statistics_dtype(dy.dtype), .suffix = "dbias"};
}

// Returns the cost of an op that reads its inputs and writes its outputs once, with `flops_per_element` per
// output element.
Cost streaming_cost(const OpView& view, double flops_per_element);

// Adds the kind that joins the existing `kind` with quantise.
void add_with_codes(OpRegistry& registry, const char* kind);

// One function for each file of this folder that defines op kinds; each backend has a file of the same name.
void register_activation(OpRegistry& registry);
void register_adafactor(OpRegistry& registry);
void register_attention(OpRegistry& registry);
void register_cached_attention(OpRegistry& registry);
void register_clip(OpRegistry& registry);
void register_dropout(OpRegistry& registry);
void register_embedding(OpRegistry& registry);
void register_float8(OpRegistry& registry);
void register_head_norm(OpRegistry& registry);
void register_label_loss(OpRegistry& registry);
void register_layer_norm(OpRegistry& registry);
void register_linear(OpRegistry& registry);
void register_lm_head(OpRegistry& registry);
void register_lm_logits(OpRegistry& registry);
void register_muon(OpRegistry& registry);
void register_optimizer(OpRegistry& registry);
void register_quantised_states(OpRegistry& registry);
void register_quantised_weight(OpRegistry& registry);
void register_rotary(OpRegistry& registry);
void register_scaled_columns(OpRegistry& registry);
void register_sequences(OpRegistry& registry);
void register_sum(OpRegistry& registry);

}  // namespace recollect::ops
