// A parameter as the whole world knows it, the part of it that one tensor rank holds, and where it lies in
// the model's files. Rows divide into blocks, each of which is split over the ranks by itself; a block may be
// a tensor of its own in files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/ops/quantised_states.h"
#include "engine/ops/quantised_weight.h"

namespace recollect {

// What a state has a number for: each element of the parameter, each row, each column of each matrix of it that is a
// tensor of its own in files, or each block of 256 columns of a row.
enum class StateOf { kElements, kRows, kColumns, kBlocks };

struct Parameter {
  enum class Split { kNone, kRows, kColumns };
  // kWaves: element c of row r is the sine, or of odd c the cosine, of r / 10000^(2 floor(c / 2) / columns), in fp32.
  enum class Init { kZero, kOne, kNormal, kUniform, kWaves };

  // What the optimizer keeps of it from step to step, by the name that its rule gives: "exp_avg".
  struct State {
    std::string name;
    ValueId value = kNone;
    StateOf of = StateOf::kElements;
  };
  // A tensor of the model's files that holds rows of it.
  struct FileTensor {
    std::string name;
    int64_t first_row = 0, rows = 0;  // of the whole
  };
  // Where a local row lies in the whole; >= rows for padding. `together` rows from it on follow each other
  // there, and are in the same file tensor.
  struct RowPlace {
    int64_t row = 0, together = 0;
    std::size_t tensor = 0;  // of file_tensors()
  };

  std::string name;       // unique; in most models' files too: "h.0.attn.c_attn.weight"
  ValueId value = kNone;  // this rank's part, in the compute dtype
  ValueId gradient = kNone;
  ValueId master = kNone;  // the statistics-dtype copy that the optimizer updates; `value` itself where equal
  std::vector<State> states = {};
  // Where what belongs to it is divided over the data ranks (data_parts.h): so many of this rank's rows each, and
  // of value and gradient those of this data rank. Masters in a dtype of their own and states are `part_rows` high.
  int64_t part_rows = 0;  // 0: nothing is divided
  ValueId value_part = kNone, gradient_part = kNone;
  ValueId whole = kNone;  // where `value` itself is a part: what ops read

  int64_t rows = 0;  // of the whole, without padding; a vector has one column
  int64_t columns = 1;
  int64_t padded_rows = 0;  // of the whole; rows beyond `rows` are zero for ever
  bool vector = false;
  bool transposed_in_file = false;  // files hold [in, out]
  Split split = Split::kNone;
  std::vector<int64_t> blocks = {};           // rows of each (q, k and v are three); empty: one
  std::vector<std::string> block_names = {};  // of each block's tensor in files; empty: one tensor, `name`
  // Not 0: in that one tensor the blocks, all of one size, alternate: so many rows of each in turn.
  int64_t interleaved = 0;
  bool partial_gradient = false;  // each tensor rank has a part of a sum (sequence parallelism)
  int repeats =
      1;  // so many tensor ranks in a row hold the same rows of each block, and parts of their gradient
  bool may_be_missing = false;  // in files; it is initialised then
  Init init = Init::kZero;
  double init_std = 0;  // of kUniform the bound: numbers are in (-init_std, init_std)
  double init_cutoff =
      0;  // of kNormal: what is further from 0 than so many init_std is drawn anew; 0: nothing is
  // Of adapters (lora.h): a linear layer's weight, beside which they may stand; A or B of one, which the model's own files
  // lack; what a file of adapters holds.
  bool linear = false, adapter = false, saved_with_adapters = false;
  // Of frozen ones: how its rows are stored (layers_base.cpp). `value` are bytes where that is not whole.
  WeightFormat stored = WeightFormat::kWhole;
  bool nested_sizes = false;
  // Its group's, and its layer's (optimizers/groups.h).
  bool frozen = false;                      // it stays what it is: no gradient, no master copy, no state
  double rate_scale = 1;                    // of the learning rate
  std::optional<double> weight_decay = {};  // the optimizer's where not given
  // Not 0: it is drawn as if it stood behind so many rows of the parameter before it, of which it is a part
  // where there are fewer ranks.
  int64_t drawn_behind = 0;
  // Not 0: where there are fewer ranks it is one parameter with tensors of the model's files of which the smallest has so
  // many rows. What a rule makes of it, it makes of all of them.
  int64_t least_rows_beside = 0;
  bool decayed() const { return !vector; }
  bool is_stored() const { return stored != WeightFormat::kWhole; }
  // A row of this rank's columns.
  StoredRow stored_row(int tensor_size) const { return {stored, nested_sizes, local_columns(tensor_size)}; }

  std::vector<FileTensor> file_tensors() const {
    if (block_names.empty()) return {{name, 0, rows}};
    std::vector<FileTensor> tensors;
    int64_t first = 0;
    for (std::size_t b = 0; b < blocks.size(); first += blocks[b++])
      tensors.push_back({block_names[b], first, blocks[b]});
    return tensors;
  }
  std::vector<int64_t> file_shape(const FileTensor& tensor) const {
    if (vector) return {tensor.rows};
    return transposed_in_file ? std::vector{columns, tensor.rows} : std::vector{tensor.rows, columns};
  }
  int64_t local_rows(int tensor_size) const {
    return split == Split::kRows ? padded_rows * repeats / tensor_size : padded_rows;
  }
  int64_t local_columns(int tensor_size) const {
    return split == Split::kColumns ? columns / tensor_size : columns;
  }
  RowPlace place_of_row(int64_t r, int tensor_rank, int tensor_size) const {
    const int ranks = split == Split::kRows ? tensor_size / repeats : 1,
              rank = split == Split::kRows ? tensor_rank / repeats : 0;
    const std::size_t count = blocks.empty() ? 1 : blocks.size();
    int64_t first = 0;  // of the block, in the whole
    for (std::size_t b = 0;; ++b) {
      const int64_t block = blocks.empty() ? padded_rows : blocks[b], part = block / ranks;
      if (r < part || b + 1 == count) {
        if (interleaved > 0) return interleaved_place(rank * part + r, b, count);
        return {first + rank * part + r, part - r, block_names.empty() ? 0 : b};
      }
      r -= part;
      first += block;
    }
  }
  RowPlace interleaved_place(int64_t r, std::size_t block, std::size_t count) const {
    const int64_t turn = r / interleaved * static_cast<int64_t>(count) + static_cast<int64_t>(block);
    return {turn * interleaved + r % interleaved, interleaved - r % interleaved, 0};
  }
  // Parts of a row of the whole that have blocks of their own: ranks that cut columns elsewhere than between blocks begin new
  // ones.
  int64_t block_parts(int tensor_size) const {
    const bool aligned = local_columns(tensor_size) % kQuantisedBlock == 0;
    return split == Split::kColumns && !aligned ? tensor_size : 1;
  }
  int64_t whole_column(int64_t c, int tensor_rank, int tensor_size) const {
    return split == Split::kColumns ? tensor_rank * (columns / tensor_size) + c : c;
  }
};

}  // namespace recollect
