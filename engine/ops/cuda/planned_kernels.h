// What the cuda backend's kernels take of memory, without the kernels: programs are planned with these in builds without CUDA, to
// the byte as in the others.
#pragma once

#include "engine/ops/vocabulary_reduction.h"
#include "engine/runtime/kernel.h"

namespace recollect::cuda {

// A kernel for every op kind of the engine, which has the workspace of the backend's own, refuses the shapes that it refuses, and
// cannot run.
void add_planned_kernels(KernelTable& table, const VocabularyReduction* vocabulary);

// Whether cuDNN computes this attention op; else our own kernel does.
bool attention_is_fused(const OpView& view);

}  // namespace recollect::cuda
