// The fourth promise: what each checkpointing switch saved, what it moved, and how long the compute stream
// waited for it; in words for the terminal, and in numbers for everything else.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/report/measurements.h"
#include "launch/report/step_report.h"

namespace recollect {

// Seconds of a step, predicted and, where somebody took the time, measured.
struct SwitchCost {
  double predicted = 0;
  std::optional<double> measured = {};
  bool operator==(const SwitchCost&) const = default;
};

// What one switch does on this rank, in each micro-batch.
struct SwitchEffect {
  std::string name;          // of the key in activation_checkpointing, or sequence_parallel
  int64_t values = 0;        // that it concerns
  uint64_t saved_bytes = 0;  // of the memory that they leave, between forward and backward
  uint64_t moved_bytes = 0;  // over links, out and back
  double flops = 0;          // run again
  SwitchCost running = {};   // a step: ops that run again; measured where a step was recorded, in that one
  SwitchCost exposed = {};   // a step: the compute stream waited for what it moves; measured as the mean
  double taken = 0;          // a step, measured: processor time that moving took from kernels beside it
  bool operator==(const SwitchEffect&) const = default;
};

// Those that have one. `made` may have given its program away.
std::vector<SwitchEffect> effects_of_switches(const Config& config, const TrainingProgram& training,
                                              const Program& program, const StepReport& step,
                                              const Timeline& timeline);

// switch -> sentence, of this rank; empty where nothing is checkpointed. `step`: as measured.
using SwitchSentence = std::pair<std::string, std::string>;
std::vector<SwitchSentence> checkpointing_report(const Config& config, const Measurements& measured,
                                                 const StepReport& step);

// What to say when the compute stream has stood for the disk for more than a tenth of these `seconds`, which
// `steps` steps took; otherwise nothing.
std::string slow_disk_warning(const ProgramCache& programs, int64_t steps, double seconds);

}  // namespace recollect
