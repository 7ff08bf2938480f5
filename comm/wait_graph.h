// Who keeps a world of ranks waiting. In a mesh one rank that is stuck holds up its own groups first and,
// through them, soon everybody: of those who do not come, most are victims too. So whoever has waited too
// long follows the waits, from those for whom it waits to those for whom they wait, and names the ranks at
// the end: those that wait for nobody.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "comm/collective_call.h"

namespace recollect {

// A rank waits in a call of one of its groups. All ranks by their numbers in the world.
struct RankWait {
  int rank = 0;
  CollectiveCall call;
  CollectiveCall before;     // of the same group, by all of its ranks; sequence 0: none
  std::vector<int> group;    // all of its ranks
  std::vector<int> missing;  // those of them that have not come
};

// Who is at the ends of all chains of waits that begin with `first`; those themselves where all go in
// circles.
std::vector<int> ends_of_waits(const std::vector<int>& first,
                               const std::function<std::vector<int>(int rank)>& waits_for);

// What has come of `mine`, a wait of `timeout`, given the others that are known: "rank 3 did not come within
// 2000 ms ...". Where the others contradict each other, those whom this wait lacks are named.
std::string who_is_late(const RankWait& mine, std::span<const RankWait> others,
                        std::chrono::milliseconds timeout);

}  // namespace recollect
