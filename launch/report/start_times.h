// Where the time goes between the start of a run and its first step, by part. Parts are laps of one clock, so that they add
// up: what no part is named for is the rest.
#pragma once

#include <array>
#include <chrono>
#include <string>
#include <string_view>

#include "engine/core/spelled.h"

namespace recollect {

// configuration: reading it, and what ranks compare before they begin; data: opening and preparing it; device: its context
// and the ranks' communicators; planning: graph, plan, layout; memory: reserving arenas, and choosing kernels; parameters:
// drawing them, or reading them from a model or a snapshot; rest: the output folder, reports of the plan.
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
  // The time since the last lap was of that part.
  void lap(StartPart part) {
    const Clock::time_point now = Clock::now();
    times_.of(part) += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }
  // The same in a list of initialisers, before what takes `value`.
  template <typename T>
  T& lap_before(StartPart part, T& value) {
    lap(part);
    return value;
  }
  // So much of what was counted as one part was of another.
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

// "start: 2.31 s to the first step, of which data 0.4 s, parameters 1.2 s\n": the parts that take a tenth of it or more.
// `first_step`: what it took more than the median of all; told where it is a tenth of the start or more.
std::string start_line(const StartTimes& times, double first_step);

}  // namespace recollect
