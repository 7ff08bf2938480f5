#include "engine/runtime/ledger.h"

#include <algorithm>
#include <numeric>

namespace recollect {

uint64_t MemoryLedger::sum(const Row& row) { return std::accumulate(row.begin(), row.end(), uint64_t{0}); }

uint64_t MemoryLedger::peak() const {
  uint64_t peak = 0;
  for (const Row& row : at_peak) peak = std::max(peak, sum(row));
  return peak;
}

}  // namespace recollect
