// Which matrices a parameter is: those that are tensors of their own in the model's files. Of each a rank may hold some
// rows or some columns.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/parameter.h"

namespace recollect {

struct MatrixPart {
  int64_t number = 0;
  int64_t first_row = 0, rows = 0;  // of this rank's part of the parameter
  int64_t whole_rows = 0;           // of all ranks, without padding
};

std::vector<MatrixPart> matrices_of(const Parameter& parameter, int tensor_size);

}  // namespace recollect
