// One rank's training: the executor, its weights and its data, a step at a time. Says nothing on the terminal
// and writes no files; `train` does.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/data/loader.h"
#include "engine/optim/learning_rate.h"
#include "engine/optim/loss_scale.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/step_recorder.h"
#include "launch/config/config.h"
#include "launch/program/resident_memory.h"
#include "launch/program/training_program.h"
#include "launch/ranks/backend.h"
#include "launch/report/measurements.h"
#include "launch/train/evaluation.h"
#include "parallel/collective_meter.h"
#include "parallel/mesh.h"
#include "parallel/weights.h"

namespace recollect {

struct StepResult {
  int64_t step = 0;  // 1 for the first
  double loss = 0;   // mean over the valid targets of the global batch
  double grad_norm = 0;
  double learning_rate = 0;
  double loss_scale = 1;      // that the gradients of this step had
  bool skipped = false;       // a gradient overflowed at that scale: nothing was updated
  int64_t tokens = 0;         // read by all ranks, padding included
  int64_t valid_targets = 0;  // that count in the loss, of all ranks
  double seconds = 0;
};

// What tests add: a change of the program before it is run, and who watches it run.
struct SessionParts {
  std::function<void(TrainingProgram&)> edit_program = {};
  ExecutorProbe* probe = nullptr;
};

class Session {
 public:
  // `config` is resolved for this world, which must outlive the session. Reserves all memory, and loads or
  // initialises the weights.
  Session(const Config& config, Communicator& world, const SessionParts& parts = {});

  // Collective, when training is over. Error kNumerics, naming what is wrong, where the last update has left
  // a parameter that is not finite, or no step has updated anything.
  void check_trained() const;

  // One optimizer step. Error kNumerics, naming the first bad tensor, when the loss is not finite, or
  // gradients are not and no smaller loss scale could help; the weights are then those from before the step.
  StepResult step();
  // The loss on the evaluation set with the weights as they are. Only for a run that evaluates.
  EvaluationResult evaluate();

  // But for its program, which the executor has.
  const TrainingProgram& training_program() const { return training_program_; }
  const Executor& executor() const { return *executor_; }
  const Weights& weights() const { return weights_; }
  const Mesh& mesh() const { return mesh_; }
  // For reports. The session must outlive them.
  Measurements measurements() const {
    return {.training = training_program_,
            .executor = *executor_,
            .mesh = mesh_,
            .recorder = recorder_.get(),
            .resident = resident_,
            .collectives = meter_.times(),
            .times = times_};
  }

 private:
  // Runs what uses the device, and asks the devices' communicators, at the same places on every rank, whether
  // anybody was lost meanwhile: where that is so, it is the news, whatever else went wrong because of it.
  template <typename Run>
  void on_device(Run run);
  // Micro-batch `state.micro_batch`, into the inputs of the program.
  void load(RunState& state, const StepBatch& batch);
  void set_scalars(int64_t valid_targets);
  double scalar(ValueId value) const;
  [[noreturn]] void explain_non_finite(const StepBatch& batch, RunState state, const StepResult& result);

  Config config_;
  Backend backend_;
  Mesh mesh_;
  CollectiveMeter meter_;
  TrainingProgram training_program_;
  std::unique_ptr<StepRecorder> recorder_;
  ResidentMemory resident_;
  std::unique_ptr<Executor> executor_;
  Weights weights_;
  std::unique_ptr<Collator> collator_;
  std::unique_ptr<Dataset> dataset_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<Evaluation> evaluation_;
  LearningRateSchedule schedule_;
  LossScale loss_scale_;
  std::vector<double> scalars_;  // of the optimizer's rule, for the step
  StepTimes times_;
  int64_t step_ = 0;     // steps done
  int64_t updates_ = 0;  // of them, those that were not skipped
};

}  // namespace recollect
