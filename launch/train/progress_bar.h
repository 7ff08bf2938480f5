// The line at the foot of a terminal that says how far a run is. It fits the terminal as wide as that is when it is drawn,
// is drawn eight times a second at most, and leaves the cursor where it begins: whatever is written next stands over it, and
// where the terminal has become narrower meanwhile and has broken it in two, both are erased.
#pragma once

#include <chrono>
#include <cstdint>

#include <fmt/format.h>

#include "engine/io/descriptor.h"
#include "launch/config/config.h"

namespace recollect {

struct BarState {
  int64_t step = 0, steps = 0;
  double loss = 0, learning_rate = 0, grad_norm = 0, tokens_per_second = 0;
  double elapsed = 0, left = 0;  // seconds; left: predicted by those of this run's steps so far
  uint64_t memory = 0;           // bytes at the peak
};

// Without moving the cursor; as many characters as `columns`, at most.
void write_bar(const BarState& state, int columns, fmt::memory_buffer& out);

class ProgressBar {
 public:
  explicit ProgressBar(ProgressStyle style);

  bool is_on() const { return on_; }
  // Characters of a line that the terminal does not break; 0 where there is no bar, and so no matter.
  int columns() const;
  // Unless it was drawn a moment ago.
  void draw(const BarState& state);
  // What erases the bar, where one is drawn; a line that is written next has its place.
  void erase(fmt::memory_buffer& out);

 private:
  using Clock = std::chrono::steady_clock;

  Descriptor of_launcher_;  // its terminal, where the rank's own standard output is another one, or none
  int beside_;              // characters of the launcher's before the bar
  bool on_, drawn_ = false;
  Clock::time_point drawn_at_{};
};

}  // namespace recollect
