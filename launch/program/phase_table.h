// The memory of one rank by category and phase as a table for the terminal, in GiB if a number reaches 1 GiB,
// otherwise in MiB, with two decimals. The JSON has bytes. Each column sums to the arena.
#pragma once

#include <string>
#include <vector>

#include "engine/runtime/ledger.h"

namespace recollect {

// The categories at the peak of each phase; measured numbers, if any, are beside the predicted ones.
std::string phase_table(const std::string& title, const MemoryLedger& predicted,
                        const MemoryLedger* measured = nullptr);
// A line of such a table: a name, then one text for each cell.
std::string table_row(const std::string& name, const std::vector<std::string>& cells);

}  // namespace recollect
