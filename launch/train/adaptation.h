// activation_checkpointing.replan_after: after this many steps, measured op times replace those of the device
// model. If the prediction for steps was wrong by more than a fifth, the plan is made again. This changes
// memory and time, but no bit of the training. The first rank of the world measures for all.
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

  // All arguments must outlive this object. `config` is the configuration of `programs`; it receives the
  // measured times.
  Adaptation(Config& config, const Mesh& mesh, ProgramCache& programs);

  // Call ran() after each micro-batch of a step, in order, and end_step() with the time of the step.
  void ran(const ReadyProgram& ready);
  void end_step(double seconds);

  // Whether the ops of the next step are timed, and whether to plan again now, after this many steps.
  bool records_after(int64_t steps) const;
  bool is_due_after(int64_t steps) const;
  // Collective, between two steps. Returns whether programs were replaced.
  bool replan();
  // The measurements and the result; "" before.
  const std::string& report() const { return report_; }

 private:
  struct Predicted {
    double micro_batch = 0, optimizer = 0;  // seconds
  };
  const Predicted& predicted(const ReadyProgram& ready);
  // Text on this rank: predicted and measured seconds of a step, and the times of op kinds.
  std::string findings();

  Config& config_;
  const Mesh& mesh_;
  ProgramCache& programs_;
  std::map<const ReadyProgram*, Predicted> known_;
  const ReadyProgram* first_ = nullptr;   // program of the current or last step
  double predicted_ = 0, optimizer_ = 0;  // of the step in progress
  StepTimes predictions_, ratios_;        // measured / predicted
  std::string report_;
};

}  // namespace recollect
