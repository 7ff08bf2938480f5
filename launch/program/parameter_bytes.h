// What a parameter takes as users of mixed precision count it: its weight, a master copy of it, its gradient and the states of
// the optimizer. Bytes for each parameter of the part of the model that a tensor rank holds, so that what data ranks divide
// (ZeRO) counts by its share; in whatever memory it lies.
#pragma once

#include <string>

#include "parallel/model.h"

namespace recollect {

struct ParameterBytes {
  double weights = 0, masters = 0, gradients = 0,
         states = 0;  // masters: of those that are no weights themselves
  double total() const { return weights + masters + gradients + states; }
};

ParameterBytes parameter_bytes(const Model& model, const Graph& graph, int tensor_size);
std::string parameter_bytes_text(const ParameterBytes& bytes);  // a line: "weights 2 + masters 4, ..."

}  // namespace recollect
