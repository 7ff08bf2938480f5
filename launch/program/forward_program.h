// A program with only the forward pass, compiled for one batch shape, for inference. Programs of several
// shapes share one memory.
#pragma once

#include <memory>

#include "engine/ops/ops.h"
#include "engine/runtime/program.h"
#include "launch/config/config.h"
#include "parallel/mesh.h"
#include "parallel/model.h"

namespace recollect {

struct ForwardProgram {
  std::shared_ptr<const OpRegistry> registry;  // the graph's ops refer to it
  Model model;
  Program program;
};

// Uses only task, model, precision and tensor ranks of the configuration. `mesh`, and the objects that
// `kernels` refer to, must outlive the program.
ForwardProgram make_forward_program(const Config& config, const Mesh& mesh, const RegisterKernels& kernels,
                                    const BatchShape& shape);

}  // namespace recollect
