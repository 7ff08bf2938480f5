// A program that only answers: forward alone, compiled for one shape of batch. Programs of several shapes share one
// memory.
#pragma once

#include <memory>

#include "engine/ops/ops.h"
#include "engine/runtime/program.h"
#include "launch/config/config.h"
#include "parallel/mesh.h"
#include "parallel/model.h"

namespace recollect {

struct ForwardProgram {
  std::shared_ptr<const OpRegistry> registry;  // the graph's ops point into it
  Model model;
  Program program;
};

// Of the configuration only task, model, precision and tensor ranks count. `mesh` must outlive the program, and so must
// what `kernels` are made of.
ForwardProgram make_forward_program(const Config& config, const Mesh& mesh, const RegisterKernels& kernels,
                                    const BatchShape& shape);

}  // namespace recollect
