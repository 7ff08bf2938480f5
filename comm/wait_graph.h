// Finds the rank that keeps a world of ranks waiting. In a mesh, one stuck rank first holds up its own groups
// and, through them, soon every rank; most ranks that do not come are victims too. A rank that has waited too
// long therefore follows the waits, from the ranks it waits for to the ranks that those wait for, and blames
// the ranks at the ends: those that wait for no one.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "comm/collective_call.h"

namespace recollect {

// A rank waits in a call of one of its groups. All ranks are world ranks.
struct RankWait {
  int rank = 0;
  CollectiveCall call;
  CollectiveCall before;     // the last call of this group that all its ranks made; sequence 0: none
  std::vector<int> group;    // all of its ranks
  std::vector<int> missing;  // its ranks that have not entered the call
};

// Returns the ranks at the ends of all chains of waits that start with `first`; returns `first` itself if all
// chains are circles.
std::vector<int> ends_of_waits(const std::vector<int>& first,
                               const std::function<std::vector<int>(int rank)>& waits_for);

// Describes the result of `mine`, a wait that reached `timeout`, given the known waits of other ranks: "rank
// 3 did not come within 2000 ms ...". If the others contradict each other, it names the ranks that `mine`
// misses.
std::string who_is_late(const RankWait& mine, std::span<const RankWait> others,
                        std::chrono::milliseconds timeout);

}  // namespace recollect
