// What the op definitions share: checks whose Errors name the op, and outputs that are like inputs.
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

// An output like `value`, in shape, dtype and placement.
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

// Memory traffic of an op that reads its inputs and writes its outputs once, with `flops` per output element.
Cost streaming_cost(const OpView& view, double flops_per_element);

void register_embedding(OpRegistry& registry);
void register_layer_norm(OpRegistry& registry);
void register_linear(OpRegistry& registry);
void register_attention(OpRegistry& registry);
void register_pointwise(OpRegistry& registry);
void register_lm_head(OpRegistry& registry);
void register_optimizer(OpRegistry& registry);

}  // namespace recollect::ops
