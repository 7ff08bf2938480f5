// Durations as people read them: one unit, about three digits. Whatever is said on the terminal of how long something
// takes is worded here; files have seconds.
#pragma once

#include <chrono>
#include <string>

namespace recollect {

// "0.374 ms", "35.6 ms", "3.2 s", "41 min", "2.5 h", "12 d".
std::string duration_text(double seconds);

inline std::string duration_text(std::chrono::duration<double> time) { return duration_text(time.count()); }

// One unit for the cells of a table.
struct DurationUnit {
  const char* name;
  double seconds;
  double operator()(double duration) const { return duration / seconds; }
};

// For a table whose largest number is `most`: ms, and s or min where that would be a number of six digits and more.
const DurationUnit& duration_unit_for(double most);

}  // namespace recollect
