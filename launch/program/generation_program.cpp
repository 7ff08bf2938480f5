#include "launch/program/generation_program.h"

#include <utility>

#include "comm/collective_ops.h"
#include "launch/program/model_graph.h"

namespace recollect {

GenerationProgram make_generation_program(const Config& config, const Mesh& mesh,
                                          const RegisterKernels& kernels, int64_t tokens, int64_t capacity) {
  ModelGraph built =
      build_model(config, mesh, {.samples = 1, .sequence_length = tokens, .cache_capacity = capacity});
  for (Parameter& p : built.model.parameters) p.master = p.value;
  KernelTable table;
  kernels(table, nullptr);
  register_comm_kernels(table, [&mesh](std::string_view axis, StreamId stream) -> Communicator& {
    return mesh.communicator(axis, stream);
  });
  return {.registry = built.registry,
          .model = std::move(built.model),
          .program = compile(std::move(built.graph), table)};
}

}  // namespace recollect
