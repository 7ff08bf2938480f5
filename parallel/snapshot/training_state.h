// The state of a training where it lies in a rank's memory: read to be saved, written to go on from.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/runtime/program_memory.h"
#include "parallel/mesh.h"
#include "parallel/model.h"
#include "parallel/snapshot/state_layout.h"

namespace recollect {

// Of the model whose values are in `graph`, in the ranks of that mesh. Needs no memory to exist: what a snapshot takes is
// known before a run. Model must outlive it. Error kInternal where an optimizer keeps what is not shaped like its
// parameter.
StateLayout state_layout(const Model& model, const Graph& graph, const Mesh& mesh);

class TrainingState {
 public:
  using Part = StatePart;

  // `graph`: the one that the model's values are in; its program, or one like it, has `memory`. Model, memory and mesh
  // must outlive the state. Error kInternal where an optimizer keeps what is not shaped like its parameter.
  TrainingState(const Model& model, const Graph& graph, const ProgramMemory& memory, const Mesh& mesh);

  const StateLayout& layout() const { return layout_; }
  const std::vector<StateTensor>& tensors() const { return layout_.tensors(); }
  std::vector<Part> held_by(int world_rank) const { return layout_.held_by(world_rank); }
  std::vector<Part> saved_by(int world_rank) const { return layout_.saved_by(world_rank); }
  int world_rank() const;

  // Whether several threads may read at a time.
  bool is_in_host_memory() const;
  // Of a part that this rank holds: `bytes` from `first` on.
  void read(const Part& part, uint64_t first, std::size_t bytes, void* to) const;
  void write(const Part& part, uint64_t first, std::size_t bytes, const void* from) const;
  // Collective, when all parts are written: parameters that compute in another type than their master copy.
  void refresh_parameters() const;

 private:
  // In the compute dtype, and what the optimizer updates: where `divided`, this data rank's part of it.
  struct Copies {
    SharedTensor value, master;
    bool divided = false;
  };
  void gather_from_data_ranks(const SharedTensor& value, int64_t part_elements) const;

  const ProgramMemory& memory_;
  const Mesh& mesh_;
  StateLayout layout_;
  std::vector<SharedTensor> memories_;  // by tensor: of the parameter that it is of
  std::vector<Copies> copies_;          // of parameters that have two
};

}  // namespace recollect
