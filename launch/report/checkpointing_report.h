// Reports the effect of each activation checkpointing switch: the bytes that it saved and moved, and how long
// the compute stream waited for it. Text is for the terminal, numbers are for all other reports.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/report/measurements.h"
#include "launch/report/step_report.h"

namespace recollect {

// Seconds in a step: predicted and, if ops were timed, measured.
struct SwitchCost {
  double predicted = 0;
  std::optional<double> measured = {};
  bool operator==(const SwitchCost&) const = default;
};

// The effect of one switch on this rank in each micro-batch.
struct SwitchEffect {
  std::string name;          // a key of activation_checkpointing, or sequence_parallel
  int64_t values = 0;        // affected values
  uint64_t saved_bytes = 0;  // freed between forward and backward
  uint64_t moved_bytes = 0;  // over links, in both directions
  double flops = 0;          // recomputed
  SwitchCost running = {};   // of recomputed ops in a step; measured in the recorded step
  SwitchCost exposed = {};   // waits for its copies in a step; measured: the mean
  double taken = 0;          // measured processor time in a step that copies took from kernels
  bool operator==(const SwitchEffect&) const = default;
};

// The switches that have an effect. `training` may no longer hold its program.
std::vector<SwitchEffect> effects_of_switches(const Config& config, const TrainingProgram& training,
                                              const Program& program, const StepReport& step,
                                              const Timeline& timeline);

// Pairs of switch and sentence for this rank; empty if nothing is checkpointed. `step` holds measured times.
using SwitchSentence = std::pair<std::string, std::string>;
std::vector<SwitchSentence> checkpointing_report(const Config& config, const Measurements& measured,
                                                 const StepReport& step);

// A warning if the compute stream has waited for the disk for more than a tenth of `seconds`, the time of
// `steps` steps; otherwise empty.
std::string slow_disk_warning(const ProgramCache& programs, int64_t steps, double seconds);

}  // namespace recollect
