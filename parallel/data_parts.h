// What belongs to a parameter, divided over the data ranks that would all hold the same of it: the optimizer's states and
// masters, from stage 2 on the gradient, and with stage 3 the parameter itself (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion
// Parameter Models", SC 2020). A data rank's part is equally many of the rows that its tensor rank holds, so that every
// rank runs the same graph; the last parts may be rows that nothing uses, which are zero for ever.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/graph/graph.h"
#include "parallel/parameter.h"

namespace recollect {

struct DataParts {
  int stage = 0;  // DeepSpeed's: 1 divides states and masters, 2 gradients too, 3 parameters too
  int size = 1;   // of the data axis
  int rank = 0;   // on it
  bool divides() const { return stage > 0 && size > 1; }
  bool divides_gradients() const { return stage > 1 && size > 1; }
  bool divides_values() const { return stage > 2 && size > 1; }
};

// Rows of a part of a value of this shape: of a vector elements. Parts begin on 64 bytes in every dtype of two bytes or
// more.
int64_t part_rows(const Shape& shape, int size);

// Bytes that all parts of a value take.
uint64_t room_for_parts(const Value& value, int size);

// Gives the parameter its parts. Its value gets room for all of them; its gradient, whose group has such room, holds this
// rank's part itself, or with `DataParts::divides_gradients` is there while backward makes it, and the part is a value
// of its own. With `divides_values` the parameter's value is the part, and the whole is for gather_parameters to make. Of
// what is frozen, and has no gradient, that is all; otherwise it stays whole.
void divide_parameter(Graph& graph, Parameter& parameter, const DataParts& parts);

// What that has spared a rank between steps, and what it gathers in each; zeros where nothing is divided.
struct Division {
  int values = 0;  // states, masters, gradients and parameters
  uint64_t saved_bytes = 0, gathered_bytes = 0;
};
Division division_of(const Graph& graph, const std::vector<Parameter>& parameters, int data_size);

}  // namespace recollect
