// What a run reserves for lengths that it has not met yet. All of them are planned before it starts, without kernels, so
// that none is refused when it comes.
#pragma once

#include <vector>

#include "launch/program/training_program.h"

namespace recollect {

// The ledger of the program with the largest arena, with as much host memory and disk as any wants.
MemoryLedger neediest_of(const std::vector<MemoryLedger>& ledgers);
// The same, but for each phase's peak, which is that of the program with most memory in it.
MemoryLedger most_of(const std::vector<MemoryLedger>& ledgers);

// Of `shapes`, the first of which is `longest`'s, whose layout is `layout`: the others with its decisions, as far as
// they are not larger. Throws the refusal of one that has no plan within activation_checkpointing.memory_budget.
MemoryLedger plan_lengths(const Config& config, const Mesh& mesh, const std::vector<BatchShape>& shapes,
                          const TrainingProgram& longest, const Layout& layout);

// What the program of a shape takes over from that of another.
TakenOver taken_over_from(const BatchShape& first, const TrainingProgram& made, const Layout& layout,
                          const MemoryLedger& reserved, const BatchShape& shape);

}  // namespace recollect
