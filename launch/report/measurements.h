// The measurements of a rank while it trains. All reports use only these.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "launch/program/program_cache.h"
#include "launch/report/step_report.h"
#include "parallel/collective_meter.h"
#include "parallel/mesh.h"

namespace recollect {

// The seconds of the latest steps, in memory of fixed size.
class StepTimes {
 public:
  void add(double seconds) {
    seconds_[static_cast<std::size_t>(kept_++) % seconds_.size()] = seconds;
    sum_ += seconds;
    ++steps_;
  }
  // From now on the median counts only new steps.
  void restart() { kept_ = 0; }
  int64_t steps() const { return steps_; }
  int64_t since_restart() const { return kept_; }
  double median() const;  // of the latest steps; 0 before the first
  double mean() const { return steps_ ? sum_ / static_cast<double>(steps_) : 0; }  // of all

 private:
  std::array<double, 1024> seconds_{};
  double sum_ = 0;
  int64_t steps_ = 0, kept_ = 0;
};

// Valid between two steps. The referenced objects must outlive it.
struct Measurements {
  const ProgramCache& programs;
  const Mesh& mesh;
  std::vector<CollectiveTimes> collectives;  // of the steps so far, summed
  StepTimes times;                           // of all steps so far
  std::string adapted = {};                  // the result of replan_after

  // The program that reports describe: of several, the one that needs the most memory
  // (ProgramCache::neediest).
  const TrainingProgram& training() const { return programs.neediest().training; }
  const Executor& executor() const { return *programs.neediest().executor; }
};

// Seconds that the compute stream has waited for a stream, in all programs.
double exposed_seconds(const ProgramCache& programs, StreamId stream);
// The same at the end of runs, for all streams.
double joined_seconds(const ProgramCache& programs);

// The same for offloaded optimizer states, on any stream.
double exposed_seconds_of_states(const ProgramCache& programs);

void add_measurement(const Config& config, const Measurements& measured, StepReport& report);

}  // namespace recollect
