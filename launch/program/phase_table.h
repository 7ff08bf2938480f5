// One rank's memory by category and phase, as a table for the terminal. In GiB where something reaches 1 GiB,
// otherwise in MiB, with two decimals; bytes are in the JSON. Each column sums to the arena.
#pragma once

#include <string>
#include <vector>

#include "engine/runtime/ledger.h"

namespace recollect {

// Categories by phase, as they stand at the peak of each phase; where something was measured, beside what was
// predicted.
std::string phase_table(const std::string& title, const MemoryLedger& predicted,
                        const MemoryLedger* measured = nullptr);
// A line of such a table: a name, then a cell each.
std::string table_row(const std::string& name, const std::vector<std::string>& cells);

}  // namespace recollect
