// The cpu backend compiled for one instruction set. A program has at least one level: the set that all of its
// code is compiled for. A build with RECOLLECT_LEVELS has the others too (engine/ops/cpu/levels.cmake).
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

// Returns the levels of this program, in ascending order of isa.
std::span<const CpuLevel> cpu_levels();

// Returns the instruction set that all code except the kernels is compiled for.
CpuIsa program_isa();

// Returns true if the processor and the system provide everything that code for that set may use.
bool can_run(CpuIsa isa);

// Throws Error kConfiguration if this program has no kernels for that set or this processor cannot run them.
// kAuto never fails.
const CpuLevel& cpu_level(CpuIsa isa = CpuIsa::kAuto);

}  // namespace recollect
