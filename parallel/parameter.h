// A parameter as the whole world knows it, and the part of it that one tensor rank holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace recollect {

struct Parameter {
  enum class Split { kNone, kRows, kColumns };
  enum class Init { kZero, kOne, kNormal };

  std::string name;       // as in the model's files: "h.0.attn.c_attn.weight"
  ValueId value = kNone;  // this rank's part, in the compute dtype
  ValueId gradient = kNone;
  ValueId master = kNone;  // the statistics-dtype copy that the optimizer updates; `value` itself where equal
  std::vector<ValueId> moments = {};

  int64_t rows = 0;  // of the whole, without padding; a vector has one column
  int64_t columns = 1;
  int64_t padded_rows = 0;  // of the whole; rows beyond `rows` are zero for ever
  bool vector = false;
  bool transposed_in_file = false;  // GPT-2's Conv1D files hold [in, out]
  Split split = Split::kNone;
  int blocks = 1;                 // rows are split inside each of so many equal blocks (q, k and v are three)
  bool partial_gradient = false;  // each tensor rank has a part of a sum (sequence parallelism)
  Init init = Init::kZero;
  double init_std = 0;
  bool decayed() const { return !vector; }

  // As the model's files have it.
  std::vector<int64_t> file_shape() const {
    if (vector) return {rows};
    return transposed_in_file ? std::vector{columns, rows} : std::vector{rows, columns};
  }
  int64_t local_rows(int tensor_size) const {
    return split == Split::kRows ? padded_rows / tensor_size : padded_rows;
  }
  int64_t local_columns(int tensor_size) const {
    return split == Split::kColumns ? columns / tensor_size : columns;
  }
  // Row of the whole that this rank's row r stands for; >= rows for padding.
  int64_t whole_row(int64_t r, int tensor_rank, int tensor_size) const {
    if (split != Split::kRows) return r;
    const int64_t part = padded_rows / blocks / tensor_size;
    return (r / part) * (padded_rows / blocks) + tensor_rank * part + r % part;
  }
  int64_t whole_column(int64_t c, int tensor_rank, int tensor_size) const {
    return split == Split::kColumns ? tensor_rank * (columns / tensor_size) + c : c;
  }
};

}  // namespace recollect
