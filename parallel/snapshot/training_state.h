// A training's state in this rank's memory: the parts of its layout can be read, and written over.
#pragma once

#include <vector>

#include "engine/runtime/program_memory.h"
#include "parallel/snapshot/state_layout.h"

namespace recollect {

class TrainingState : public StateLayout {
 public:
  // `graph`: the one that the model's values are in; its program, or one like it, has `memory`. Model, memory and mesh
  // must outlive the state. Error kInternal where an optimizer keeps what is not shaped like its parameter.
  TrainingState(const Model& model, const Graph& graph, const ProgramMemory& memory, const Mesh& mesh);

  // Of a part that this rank holds: `bytes` from `first` on.
  void read(const Part& part, uint64_t first, std::size_t bytes, void* to) const;
  void write(const Part& part, uint64_t first, std::size_t bytes, const void* from) const;
  // When all parts are written: parameters that compute in another type than their master copy.
  void refresh_parameters() const;

 private:
  const Model& model_;
  const ProgramMemory& memory_;
  std::vector<Tensor> values_;        // by parameter, in the compute dtype
  std::vector<Tensor> homes_;         // by the layout's tensor
  std::vector<std::size_t> masters_;  // by parameter: its tensor
};

}  // namespace recollect
