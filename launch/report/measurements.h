// What a rank has measured while it trains: all that reports are made of, whoever runs the steps.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/runtime/executor.h"
#include "engine/runtime/step_recorder.h"
#include "launch/program/resident_memory.h"
#include "launch/program/training_program.h"
#include "launch/report/step_report.h"
#include "parallel/collective_meter.h"
#include "parallel/mesh.h"

namespace recollect {

// The seconds of the latest steps, in memory that does not grow.
class StepTimes {
 public:
  void add(double seconds) {
    seconds_[static_cast<std::size_t>(steps_++) % seconds_.size()] = seconds;
    sum_ += seconds;
  }
  int64_t steps() const { return steps_; }
  double median() const;  // of the latest; 0 before the first step
  double mean() const { return steps_ ? sum_ / static_cast<double>(steps_) : 0; }  // of all

 private:
  std::array<double, 1024> seconds_{};
  double sum_ = 0;
  int64_t steps_ = 0;
};

// Between two steps. What it refers to must outlive it.
struct Measurements {
  const TrainingProgram& training;  // but for its program, which the executor has
  const Executor& executor;
  const Mesh& mesh;
  const StepRecorder* recorder;              // null where no step is recorded
  ResidentMemory resident;                   // as predicted before anything was reserved
  std::vector<CollectiveTimes> collectives;  // of the steps so far, summed
  StepTimes times;                           // of all steps so far
};

void add_measurement(const Config& config, const Measurements& measured, StepReport& report);

}  // namespace recollect
