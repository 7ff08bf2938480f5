// The time between the start of a run and its first step, by part. The parts are laps of one clock, so their
// sum is the whole time; kRest is the time of everything else.
#pragma once

#include <array>
#include <chrono>
#include <string>
#include <string_view>

#include "engine/core/spelled.h"

namespace recollect {

// configuration: reading it, and comparing it between ranks; data: opening and preparing it; device: its
// context and the communicators; planning: graph, plan, layout; memory: reserving arenas, and choosing
// kernels; parameters: initialising them, or reading them from a model or a snapshot; rest: the output
// folder, reports of the plan.
enum class StartPart { kConfiguration, kData, kDevice, kPlanning, kMemory, kParameters, kRest };
template <>
inline constexpr std::array<std::string_view, 7> kSpellings<StartPart> = {
    "configuration", "data", "device", "planning", "memory", "parameters", "rest"};

struct StartTimes {
  std::array<double, kSpellings<StartPart>.size()> seconds{};

  double& of(StartPart part) { return seconds[static_cast<std::size_t>(part)]; }
  double total() const {
    double sum = 0;
    for (const double one : seconds) sum += one;
    return sum;
  }
  bool operator==(const StartTimes&) const = default;
};

class StartClock {
 public:
  // Adds the time since the last lap to `part`.
  void lap(StartPart part) {
    const Clock::time_point now = Clock::now();
    times_.of(part) += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }
  // The same within a list of initialisers, before the initialiser that uses `value`.
  template <typename T>
  T& lap_before(StartPart part, T& value) {
    lap(part);
    return value;
  }
  // Moves `seconds` from one part to another.
  void move(double seconds, StartPart from, StartPart to) {
    times_.of(from) -= seconds;
    times_.of(to) += seconds;
  }
  const StartTimes& times() const { return times_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
  StartTimes times_;
};

// "start: 2.31 s to the first step, of which data 0.4 s, parameters 1.2 s\n": the parts that take at least a
// tenth of it. `first_step` is its extra time over the median step; it is printed if it is at least a tenth
// of the start.
std::string start_line(const StartTimes& times, double first_step);

}  // namespace recollect
