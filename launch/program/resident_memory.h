// All the memory that the system counts as this process's, arenas and everything beside them: predicted when
// a run has been planned and none of its memory is reserved, and measured when it reports. Ranks that are
// threads of one process share the number.
//
// What lies beside the arenas by itself, the program with its libraries, what planning has left, the buffers of
// communicators and the index of the data, which is open by then, is measured at that moment (`at_start`). Predicted is that, and the memory of
// which the size is known: arenas, the buffers of the loader and for what is saved, and the program's own
// code, of which the first step brings in nearly all that is not in memory yet.
#pragma once

#include <cstdint>

#include "comm/communicator.h"
#include "engine/runtime/ledger.h"
#include "engine/runtime/program.h"
#include "launch/config/config.h"

namespace recollect {

struct ResidentMemory {
  uint64_t at_start = 0, predicted = 0;  // 0: nothing is predicted
  uint64_t measured = 0;                 // 0: not yet
  bool operator==(const ResidentMemory&) const = default;
};

// Bytes of this process that are in memory now; 0 where the system does not say.
uint64_t resident_bytes();

// The most that there ever were; 0 where the system does not say.
uint64_t peak_resident_bytes();
// From now on that is the most since this moment, where the system allows it: for what a run does not hold itself.
void forget_peak_resident();

// Of the program's own code, bytes that are not in memory yet; 0 where the system does not say.
uint64_t unread_code_bytes();

// That a rank whose device's memory is the host's will hold, beyond what its process has when its
// communicators are made; but for snapshots.
uint64_t resident_needs(const Config& config, const MemoryLedger& memory);

// What the programs of `lengths` lengths take beside those that are there when memory is reserved, one or with
// training.compile ahead all: those that the run can come to meet, anew where replan_after replaces them, and what runs
// all of them.
uint64_t program_needs(const Config& config, const Program& longest, std::size_t lengths);

// Collective over `world`, which has planned. `needed`: this rank's, of resident_needs().
ResidentMemory predict_resident(uint64_t needed, Communicator& world);

}  // namespace recollect
