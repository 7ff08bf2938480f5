// Computes the memory to reserve for lengths that a run has not met yet. All lengths are planned without
// kernels before the run starts, so that no length is refused later.
#pragma once

#include <vector>

#include "launch/program/training_program.h"

namespace recollect {

// The ledger of the program with the largest arena, with the largest host memory and disk of all ledgers.
MemoryLedger neediest_of(const std::vector<MemoryLedger>& ledgers);
// The same, but each phase has the peak of the program that needs the most memory in this phase.
MemoryLedger most_of(const std::vector<MemoryLedger>& ledgers);

// Plans all `shapes`. The first belongs to `longest`, whose layout is `layout`; the others use its decisions
// if they are not larger. Throws the refusal of a shape without a plan within
// activation_checkpointing.memory_budget.
MemoryLedger plan_lengths(const Config& config, const Mesh& mesh, const std::vector<BatchShape>& shapes,
                          const TrainingProgram& longest, const Layout& layout);

// What the program for `shape` reuses from the program for `first`.
TakenOver taken_over_from(const BatchShape& first, const TrainingProgram& made, const Layout& layout,
                          const MemoryLedger& reserved, const BatchShape& shape);

}  // namespace recollect
