// The latest calls of one rank on all of its communicators: what it did before it failed or was ended. All
// memory is allocated when the log is made. Any thread may call: the communicators of several streams write,
// and the code that ends the rank reads.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "comm/collective_call.h"

namespace recollect {

class CallLog {
 public:
  static constexpr std::size_t kKept = 256, kOpBytes = 96, kNamedRanks = 8;

  struct Entry {
    uint64_t number = 0;  // counts this rank's calls, from 1
    CollectiveCall call;
    int64_t step = 0;              // 1 for the first step; 0 before it
    double begun = 0, ended = -1;  // seconds since the log was made; `ended` is negative while it runs
    int32_t group_size = 0;        // number of ranks in its group
    std::array<int32_t, kNamedRanks> group = {};  // the first of them, as world ranks
    std::array<char, kOpBytes> op = {};           // name of the op that made it, cut short; "" if none did
  };

  // Later calls belong to this step.
  void begin_step(int64_t step);
  // Notes that a call begins and returns the number to pass to end(). `op` may be null.
  uint64_t begin(const CollectiveCall& call, std::span<const int> group, const char* op);
  void end(uint64_t number);

  // Returns the calls that are kept, oldest first.
  std::vector<Entry> entries() const;
  int64_t step() const;

 private:
  using Clock = std::chrono::steady_clock;
  double now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  const Clock::time_point start_ = Clock::now();
  mutable std::mutex mutex_;  // guards what follows
  std::array<Entry, kKept> entries_ = {};
  uint64_t calls_ = 0;
  int64_t step_ = 0;
};

}  // namespace recollect
