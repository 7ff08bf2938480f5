// The bytes per parameter as usual for mixed precision: weight, master copy, gradient and optimizer states.
// The count is per parameter of a tensor rank's shard of the model, so that state sharded over data ranks
// (ZeRO) counts by its share. All kinds of memory count.
#pragma once

#include <string>

#include "parallel/model.h"

namespace recollect {

struct ParameterBytes {
  double weights = 0, masters = 0, gradients = 0,
         states = 0;  // masters: only separate copies
  double total() const { return weights + masters + gradients + states; }
};

ParameterBytes parameter_bytes(const Model& model, const Graph& graph, int tensor_size);
std::string parameter_bytes_text(const ParameterBytes& bytes);  // one line: "weights 2 + masters 4, ..."

}  // namespace recollect
