// Ranks that hold the others up step after step. A step takes all ranks as long as the slowest; what tells them apart is
// the time in which a rank did not wait for others. Of each rank it is the median over its latest steps, so that one long
// step is no news, and a rank is slow where that is well above what the ranks' median is.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace recollect {

struct SlowRanks {
  struct One {
    int rank = 0;
    double seconds = 0;  // of a step, in which it waits for nobody
  };
  double median = 0;       // of all ranks
  std::vector<One> ranks;  // the slowest first
};

// `seconds` by rank. Of an even number of ranks the median is the faster of the two in the middle.
SlowRanks find_slow_ranks(std::span<const double> seconds);
// Collective.
SlowRanks gather_slow_ranks(double own_seconds, Communicator& world);

// One line, on the slowest; "" where there are none.
std::string slow_ranks_text(const SlowRanks& slow);

}  // namespace recollect
