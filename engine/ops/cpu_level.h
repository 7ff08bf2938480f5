// The cpu backend as it was compiled for one set of instructions. A program has one level at least, the one that
// all of its code is compiled for; built with RECOLLECT_LEVELS, it has the others too (engine/ops/cpu/levels.cmake).
#pragma once

#include <span>
#include <string>

#include "engine/core/normals.h"
#include "engine/ops/cpu_isa.h"
#include "engine/ops/vocabulary_reduction.h"
#include "engine/runtime/kernel.h"

namespace recollect {

struct CpuLevel {
  CpuIsa isa = CpuIsa::kBaseline;                                                           // never kAuto
  void (*register_kernels)(KernelTable& table, VocabularyReduction* vocabulary) = nullptr;  // as in ops.h
  std::string (*instruction_set)() = nullptr;                                               // as in ops.h
  // As in cpu/draw_normals.h; the same bits at every level.
  void (*draw_normals)(const DrawKey& key, uint64_t first, int64_t count, double scale, float* out) = nullptr;
};

// Those of this program, by rising isa.
std::span<const CpuLevel> cpu_levels();

// What everything but kernels is compiled for.
CpuIsa program_isa();

// Whether the processor and the system have all that code of that set may use.
bool can_run(CpuIsa isa);

// Error kConfiguration where this program has no such kernels or this processor cannot run them; kAuto always has
// an answer.
const CpuLevel& cpu_level(CpuIsa isa = CpuIsa::kAuto);

}  // namespace recollect
