// Finds ranks that delay the others in most steps. A step takes all ranks as long as the slowest, so ranks
// are compared by the time in which they did not wait for others. Each rank has the median over its latest
// steps, so that a single long step does not count. A rank is slow if its time is well above the median of
// all ranks.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace recollect {

struct SlowRanks {
  struct One {
    int rank = 0;
    double seconds = 0;  // of a step, without waits for others
  };
  double median = 0;       // of all ranks
  std::vector<One> ranks;  // the slowest first
};

// `seconds` are by rank. With an even number of ranks the median is the faster of the two in the middle.
SlowRanks find_slow_ranks(std::span<const double> seconds);
// Collective.
SlowRanks gather_slow_ranks(double own_seconds, Communicator& world);

// One line about the slowest ranks; "" if there are none.
std::string slow_ranks_text(const SlowRanks& slow);

}  // namespace recollect
