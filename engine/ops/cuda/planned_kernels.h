// Stand-ins for the cuda backend's kernels that need the same memory but cannot run. With them, a build
// without CUDA plans programs with exactly the same number of bytes as a build with CUDA.
#pragma once

#include "engine/ops/vocabulary_reduction.h"
#include "engine/runtime/kernel.h"

namespace recollect::cuda {

// Adds one stand-in for every op kind of the engine. It has the workspace of the real kernel and refuses the
// same shapes.
void add_planned_kernels(KernelTable& table, const VocabularyReduction* vocabulary);

// Returns true if cuDNN computes this attention op, false if the engine's own kernel does.
bool attention_is_fused(const OpView& view);

}  // namespace recollect::cuda
