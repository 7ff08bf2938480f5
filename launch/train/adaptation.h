// activation_checkpointing.replan_after: after so many steps, what ops were measured to take replaces what the device's
// model says, and the plan is made again where steps were predicted to take a fifth more or less than they did. It is a
// matter of memory and time: training has the same bits. The world's first rank measures for all.
#pragma once

#include <map>
#include <string>

#include "launch/config/config.h"
#include "launch/program/program_cache.h"
#include "launch/report/measurements.h"
#include "parallel/mesh.h"

namespace recollect {

class Adaptation {
 public:
  static constexpr double kTolerance = 0.2;  // of the measured step

  // All must outlive it; `config` is the one that `programs` are made of, and learns what was measured.
  Adaptation(Config& config, const Mesh& mesh, ProgramCache& programs);

  // While a step runs: that a micro-batch was run, in order; at its end, how long the step took.
  void ran(const ReadyProgram& ready);
  void end_step(double seconds);

  // Whether the step behind this many is the one whose ops are timed, and whether it is time to plan again.
  bool records_after(int64_t steps) const;
  bool is_due_after(int64_t steps) const;
  // Collective, between two steps. Whether programs were replaced.
  bool replan();
  // What was found and done; "" before.
  const std::string& report() const { return report_; }

 private:
  struct Predicted {
    double micro_batch = 0, optimizer = 0;  // seconds
  };
  const Predicted& predicted(const ReadyProgram& ready);
  // Of this rank: predicted and measured seconds of a step, and what kinds of ops took.
  std::string findings();

  Config& config_;
  const Mesh& mesh_;
  ProgramCache& programs_;
  std::map<const ReadyProgram*, Predicted> known_;
  const ReadyProgram* first_ = nullptr;   // of the step in progress, or of the last one
  double predicted_ = 0, optimizer_ = 0;  // of the step in progress
  StepTimes predictions_, ratios_;        // measured / predicted
  std::string report_;
};

}  // namespace recollect
