// Durations for people: one unit, about three digits. Every duration on the terminal is worded here; files
// hold seconds.
#pragma once

#include <chrono>
#include <string>

namespace recollect {

// "0.374 ms", "35.6 ms", "3.2 s", "41 min", "2.5 h", "12 d".
std::string duration_text(double seconds);

inline std::string duration_text(std::chrono::duration<double> time) { return duration_text(time.count()); }

// One unit for all cells of a table.
struct DurationUnit {
  const char* name;
  double seconds;
  double operator()(double duration) const { return duration / seconds; }
};

// Returns the unit for a table whose largest duration is `most` seconds: ms, or else s or min if the number
// would have more than five digits.
const DurationUnit& duration_unit_for(double most);

}  // namespace recollect
