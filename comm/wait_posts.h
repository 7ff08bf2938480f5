// What ranks tell each other that have waited for long, where they do not share memory: for whom, in which
// call. A rank repeats it while it waits, a few times before it gives up, so a rank that has come free, was
// stopped or is stuck is soon one that waits for nobody. What it says when it gives up holds for good: it does
// nothing afterwards, and who waits for it is as much a victim later on. Ranks that wait no longer than usual
// say nothing.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "comm/wait_graph.h"

namespace recollect {

// A wait as it travels: plain bytes, with as many ranks as fit. Of those that do not, others are as good:
// each leads to who is late.
struct WaitPost {
  static constexpr std::size_t kMostRanks = 32;

  int32_t rank = 0;
  int32_t group_size = 0, missing_size = 0;  // in the lists
  uint32_t slot = 0;                         // which of the rank's communicators
  uint32_t gave_up = 0;                      // or still waits
  CollectiveCall call, before;
  std::array<int32_t, kMostRanks> group{}, missing{};
};

WaitPost post_of(const RankWait& wait, uint32_t slot);
RankWait wait_of(const WaitPost& post);

// Of one process: what it has said itself, and what it has heard. Any thread may call.
class WaitPosts {
 public:
  using Clock = std::chrono::steady_clock;

  // Of one of so many ranks.
  WaitPosts(int ranks, std::chrono::milliseconds timeout) : ranks_(ranks), interval_(timeout / 10) {}

  uint32_t make_slot() { return slots_++; }
  // Who waits says so after this time, and again each time that it has passed.
  Clock::duration interval() const { return interval_; }
  // Takes no notice of what no rank can have said.
  void note(const WaitPost& post);
  std::vector<RankWait> current() const;

 private:
  struct Noted {
    WaitPost post;
    Clock::time_point when;
  };

  const int ranks_;
  const Clock::duration interval_;
  std::atomic<uint32_t> slots_ = 0;
  mutable std::mutex mutex_;
  std::map<std::pair<int32_t, uint32_t>, Noted> noted_;  // by rank and slot
};

}  // namespace recollect
