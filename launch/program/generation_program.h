// The program that reads the next tokens of a sequence, behind those whose keys and values its cache holds:
// forward alone, compiled for one number of tokens. Programs for several numbers share one memory.
#pragma once

#include <memory>

#include "engine/ops/ops.h"
#include "engine/runtime/program.h"
#include "launch/config/config.h"
#include "parallel/mesh.h"
#include "parallel/model.h"

namespace recollect {

struct GenerationProgram {
  std::shared_ptr<const OpRegistry> registry;  // the graph's ops point into it
  Model model;
  Program program;
};

// `capacity`: tokens of the cache. Of the configuration only task, model, precision and tensor ranks count.
// `mesh` must outlive the program, and so must what `kernels` are made of.
GenerationProgram make_generation_program(const Config& config, const Mesh& mesh,
                                          const RegisterKernels& kernels, int64_t tokens, int64_t capacity);

}  // namespace recollect
