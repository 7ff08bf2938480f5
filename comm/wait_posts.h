// Messages by which ranks without shared memory tell each other that they have waited for long: for whom, and
// in which call. A rank repeats the message while it waits, several times before it gives up, so a rank whose
// messages stop is soon known to wait for no one: it continues, was stopped or is stuck. The message of a
// rank that gives up stays valid: that rank does nothing afterwards, and the ranks that wait for it are
// victims too. Ranks with ordinary waits send nothing.
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

// A wait in transportable form: plain bytes, with as many ranks as fit. Ranks that do not fit are not needed:
// each of those that do leads to the late rank.
struct WaitPost {
  static constexpr std::size_t kMostRanks = 32;

  int32_t rank = 0;
  int32_t group_size = 0, missing_size = 0;  // entries used in the two lists
  uint32_t slot = 0;                         // number of the communicator on that rank
  uint32_t gave_up = 0;                      // 1 if it gave up; 0 if it still waits
  CollectiveCall call, before;
  std::array<int32_t, kMostRanks> group{}, missing{};
};

WaitPost post_of(const RankWait& wait, uint32_t slot);
RankWait wait_of(const WaitPost& post);

// The posts of one process: its own, and those it has received. Any thread may call.
class WaitPosts {
 public:
  using Clock = std::chrono::steady_clock;

  // For a process in a world of `ranks`.
  WaitPosts(int ranks, std::chrono::milliseconds timeout) : ranks_(ranks), interval_(timeout / 10) {}

  uint32_t make_slot() { return slots_++; }
  // A rank that waits sends a post after this time, and again each time it has passed.
  Clock::duration interval() const { return interval_; }
  // Ignores posts that no rank can have sent.
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
