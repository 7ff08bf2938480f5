// What a training's state is, tensor by tensor as the whole world sees it, and which parts of it each rank holds: of
// every parameter its master copy, and what the optimizer keeps of it. Rows that only pad are no part of anything. A
// part is a rectangle of one tensor, which lies in one piece in a rank's memory.
//
// Ranks may hold the same part. Which of them saves it is a function of the model and the mesh that all ranks know; no
// part is saved twice, and ranks save about as much each. Nothing here needs memory to exist: what a snapshot takes is
// known before a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/mesh.h"
#include "parallel/model.h"

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

class StateLayout {
 public:
  // `graph`: the one that the model's values are in. Model and mesh must outlive the layout. Error kInternal where an
  // optimizer keeps what is not shaped like its parameter.
  StateLayout(const Model& model, const Graph& graph, const Mesh& mesh);

  const std::vector<StateTensor>& tensors() const { return tensors_; }

  struct Part {
    std::size_t tensor = 0;
    Rectangle place;
    uint64_t offset = 0, bytes = 0;  // in the holder's memory of this tensor
  };
  // In tensor's order; of any rank of the world.
  std::vector<Part> held_by(int world_rank) const;
  std::vector<Part> saved_by(int world_rank) const;
  int world_rank() const;

 private:
  void add(const Parameter& parameter, std::string name, const Value& value);
  int shard_of(const Parameter& parameter, int world_rank) const;
  std::vector<std::vector<int>> savers() const;

  const Mesh& mesh_;
  std::vector<StateTensor> tensors_;
  std::vector<const Parameter*> parameters_;  // by tensor
  std::vector<std::vector<int>> savers_;      // by tensor and shard: a world rank
};

}  // namespace recollect
