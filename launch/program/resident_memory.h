// The resident memory of this process, arenas and everything else. It is predicted after a run has been
// planned and before it reserves memory, and measured when it reports. Ranks that are threads of one process
// share the number.
//
// Memory that exists at that moment is measured (`at_start`): the program with its libraries, leftovers of
// planning, the buffers of communicators and the index of the open data. The prediction adds everything of
// known size that follows: arenas, the buffers of the loader and of saving, and the program's own code,
// because the first step reads almost all code that is not in memory yet.
#pragma once

#include <cstdint>

#include "comm/communicator.h"
#include "engine/runtime/ledger.h"
#include "engine/runtime/program.h"
#include "launch/config/config.h"

namespace recollect {

struct ResidentMemory {
  uint64_t at_start = 0, predicted = 0;  // 0: not predicted
  uint64_t measured = 0;                 // 0: not yet
  bool operator==(const ResidentMemory&) const = default;
};

// Bytes of this process in memory now; 0 if unknown.
uint64_t resident_bytes();

// The highest value so far; 0 if unknown.
uint64_t peak_resident_bytes();
// Restarts the peak at this moment, if the system allows it, to exclude memory that does not belong to the
// run.
void forget_peak_resident();

// Bytes of the program's own code that are not in memory yet; 0 if unknown.
uint64_t unread_code_bytes();

// The bytes that a rank on a CPU will add to its process after its communicators exist, without snapshots.
uint64_t resident_needs(const Config& config, const MemoryLedger& memory);

// The bytes of programs for `lengths` lengths that are made after memory is reserved, and of their executors.
// With training.compile ahead all programs exist by then, otherwise one. Programs that replan_after makes
// again are included.
uint64_t program_needs(const Config& config, const Program& longest, std::size_t lengths);

// Collective over `world`, after planning. `needed` is this rank's result of resident_needs().
ResidentMemory predict_resident(uint64_t needed, Communicator& world);

}  // namespace recollect
