// What a training has made so far, tensor by tensor as the whole world sees it, and which parts of them lie where: of
// every parameter its master copy, and what the optimizer keeps of it, under the names that files give the parameter. So
// they are the same in every layout of ranks, of which some hold as one parameter what others hold as two. Rows that only
// pad are no part of anything. A part is a rectangle of one tensor, which lies in one piece in a rank's memory.
//
// Ranks may hold the same part. Which of them saves it is a function of the model and the sizes of the mesh that all ranks
// know, and whoever rewrites a snapshot; no part is saved twice, and ranks save about as much each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/parameter.h"

namespace recollect {

// Columns of a vector: one.
struct Rectangle {
  int64_t row = 0, rows = 0, column = 0, columns = 1;
  int64_t elements() const { return rows * columns; }
  bool operator==(const Rectangle&) const = default;
};
// What two have in common; no rows or no columns: nothing.
Rectangle common_part(const Rectangle& a, const Rectangle& b);

struct StateTensor {
  std::string name;  // the parameter's own for the master; "h.0.mlp.c_fc.weight/exp_avg" for a state
  DType dtype = DType::kF32;
  int64_t rows = 0, columns = 1;
  bool vector = false;
  std::vector<int64_t> shape() const { return vector ? std::vector{rows} : std::vector{rows, columns}; }
  uint64_t bytes() const { return static_cast<uint64_t>(rows * columns) * size_of(dtype); }
};
// Of a tensor of that parameter: what it has a number for, which its shape says.
StateOf kind_of_state(const Parameter& parameter, const StateTensor& tensor);
std::string state_name(const std::string& parameter, const std::string& state);  // "": the master

struct StatePart {
  std::size_t tensor = 0;
  Rectangle place;
  uint64_t offset = 0, bytes = 0;  // in the holder's memory of the parameter's master or state
};

class StateLayout {
 public:
  StateLayout(int tensor_size, int world_size) : tensor_size_(tensor_size), world_size_(world_size) {}

  // "" for the master copy, or the name that the optimizer gives a state. `divided`: each data rank holds
  // Parameter::part_rows of the rows.
  struct Kept {
    std::string state;
    DType dtype = DType::kF32;
    StateOf of = StateOf::kElements;
    bool divided = false;
  };
  // The tensors of a parameter, which must outlive the layout: of each block with a name of its own all that is kept.
  void add(const Parameter& parameter, const std::vector<Kept>& kept);

  const std::vector<StateTensor>& tensors() const { return tensors_; }
  int world_size() const { return world_size_; }
  // In tensors' order; of any rank of the world.
  std::vector<StatePart> held_by(int world_rank) const;
  std::vector<StatePart> saved_by(int world_rank) const;

 private:
  // Of a tensor.
  struct Origin {
    const Parameter* parameter;
    std::size_t block;  // of its file tensors
    int64_t first_row;
    StateOf of;
    bool divided;  // over data ranks
  };
  // Of a row's numbers: those that a rank holds, and the whole's.
  struct Columns {
    int64_t first, count, whole;
  };
  Columns columns_of(const Parameter& parameter, StateOf of, int tensor_rank) const;
  int shard_of(const Origin& origin, int world_rank) const;
  void add_parts_of_rows(std::size_t tensor, int world_rank, std::vector<StatePart>& parts) const;
  StatePart part_of_columns(std::size_t tensor, int rank) const;
  std::vector<std::vector<int>> savers() const;

  int tensor_size_, world_size_;
  std::vector<StateTensor> tensors_;
  std::vector<Origin> origins_;
  mutable std::vector<std::vector<int>>
      savers_;  // by tensor and shard: a world rank; none until somebody asks
};

}  // namespace recollect
