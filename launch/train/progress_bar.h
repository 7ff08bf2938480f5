// The progress bar on the last line of a terminal. It fits the current width of the terminal, is drawn at
// most eight times a second, and leaves the cursor at its beginning. So the next output overwrites it. If the
// terminal became narrower and broke the bar into two lines, both are erased.
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
  double elapsed = 0, left = 0;  // seconds; left: predicted from this run's steps so far
  uint64_t memory = 0;           // bytes at the peak
};

// Writes the bar without moving the cursor, with at most `columns` characters.
void write_bar(const BarState& state, int columns, fmt::memory_buffer& out);

class ProgressBar {
 public:
  explicit ProgressBar(ProgressStyle style);

  bool is_on() const { return on_; }
  // The number of characters that fit on a line of the terminal; 0 if there is no bar.
  int columns() const;
  // Draws the bar unless it was drawn a moment ago.
  void draw(const BarState& state);
  // Appends the sequence that erases the bar, if it is drawn; the next output takes its line.
  void erase(fmt::memory_buffer& out);

 private:
  using Clock = std::chrono::steady_clock;

  Descriptor of_launcher_;  // its terminal, if stdout is a different one or none
  int beside_;              // characters of the launcher before the bar
  bool on_, drawn_ = false;
  Clock::time_point drawn_at_{};
};

}  // namespace recollect
