// The barrier is the only place where ranks of a region wait for each other. A wait ends after the timeout at
// the latest, or as soon as a check (five times a second) shows that a missing rank has died or left. More
// ranks than cores is normal, so a waiting rank sleeps. It spins first only if every rank has a core, and
// longer if the others are in the same call already.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "comm/call_times.h"
#include "comm/local/segment.h"

namespace recollect::local {

class Barrier {
 public:
  Barrier(std::shared_ptr<Segment> segment, Region& region, int rank, std::chrono::milliseconds timeout);

  // Returns when every rank of the region has come, and adds to `times` how long it waited and for whom.
  // kPeerLost names `call` and the missing ranks; the first rank that detects this stops the whole segment
  // with that reason. `all_have_begun`: this rank knows from an earlier meeting that all ranks have begun
  // `call`.
  void wait(const CollectiveCall& call, CallTimes& times, bool all_have_begun);

 private:
  bool arrive(uint32_t before, int64_t now);  // returns true for the last rank
  void wait_until_passed(uint32_t before, const CollectiveCall& call, int spins);
  void sleep_until_passed(uint32_t before, const CollectiveCall& call);
  void look_for_the_lost(uint32_t before, const CollectiveCall& call,
                         std::chrono::steady_clock::time_point deadline);
  bool has_arrived(int rank) const;
  bool has_left(int rank) const;
  bool has_died(int rank) const;
  template <typename Predicate>
  std::vector<int> ranks_that(Predicate predicate) const;
  std::string blame(const CollectiveCall& call, std::vector<int> missing) const;
  [[noreturn]] void throw_stopped(const CollectiveCall& call) const;

  std::shared_ptr<Segment> segment_;
  const CallTimes* times_ = nullptr;  // of the current call
  Region& region_;
  RankState& mine_;
  const int rank_;
  std::chrono::milliseconds timeout_;
  ProcessIdentity self_;
  const bool may_spin_;
};

}  // namespace recollect::local
