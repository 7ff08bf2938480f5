// One rank's training: its programs, its weights and its data, a step at a time. Says nothing on the terminal
// and writes no files; `train` does.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "engine/data/loader.h"
#include "engine/data/tasks.h"
#include "engine/optim/learning_rate.h"
#include "engine/optim/loss_scale.h"
#include "launch/config/config.h"
#include "launch/program/program_cache.h"
#include "launch/ranks/backend.h"
#include "launch/report/measurements.h"
#include "launch/report/start_times.h"
#include "launch/train/adaptation.h"
#include "launch/train/batch_programs.h"
#include "launch/train/best_evaluation.h"
#include "launch/train/evaluation.h"
#include "launch/train/op_digests.h"
#include "launch/train/open_data.h"
#include "launch/train/spike_detector.h"
#include "parallel/collective_meter.h"
#include "parallel/mesh.h"
#include "parallel/snapshot/manifest.h"
#include "parallel/snapshot/training_state.h"
#include "parallel/weights.h"

namespace recollect {

struct StepResult {
  int64_t step = 0;  // 1 for the first
  double loss = 0;   // mean over the valid targets of the global batch
  double grad_norm = 0;
  double learning_rate = 0;
  double loss_scale = 1;      // that the gradients of this step had
  bool skipped = false;       // loss or gradients are not finite at that scale: nothing was updated
  int64_t tokens = 0;         // read by all ranks, padding included
  int64_t valid_targets = 0;  // that count in the loss, of all ranks
  double epoch = 0;           // Session::epoch() after it
  TrainedSoFar so_far = {};
  // Of this rank's micro-batch that takes most memory: its samples, the tokens of each, padding included, and the bytes
  // of the device's arena that its program uses at most, with the phase in which it does.
  int64_t samples = 0, sequence_length = 0;
  uint64_t memory_peak = 0;
  Phase peak_phase = Phase::kForward;
  double seconds = 0;
  double waited = 0;  // of them, for other ranks
  // What is not finite, and which samples the batch has, where the run goes on all the same (numerics.on_non_finite).
  std::string not_finite = {};
  std::string spike = {};  // how far the loss is above those before it, and which samples the batch has
};

class Session {
 public:
  // `config` is resolved for this world, which must outlive the session. Reserves all memory, and loads or
  // initialises the weights.
  // `restore`, where it is given, fills the state, for which nothing is loaded or initialised then; or says that there is
  // nothing to go on from.
  using Restore = std::function<std::optional<TrainingProgress>(const TrainingState&)>;
  // `training_data`: where it is open already (open_data.h). `clock`: of all that came before.
  Session(const Config& config, Communicator& world, const ProgramParts& parts = {},
          const Restore& restore = {}, OpenedData training_data = {}, const StartClock& clock = {});

  // With the laps of what the session took to be ready.
  const StartClock& start_clock() const { return clock_; }

  // Collective, when training is over. Error kNumerics, naming what is wrong, where the last update has left
  // a parameter that is not finite, or no step has updated anything.
  void check_trained() const;

  // Every step from this one to profiling.step is recorded, not that one alone.
  void record_from(int64_t step) { recorded_from_ = step; }

  // One optimizer step. Error kNumerics, naming the first bad tensor, when the loss is not finite, or
  // gradients are not and no smaller loss scale could help; the weights are then those from before the step. Error
  // kIntegrity, naming rank and op, where an op gave other bits when it was run again.
  StepResult step();
  // The state is that of `progress` again; batches go on behind the latest, and the best evaluation stays what it is.
  void go_back_to(const TrainingProgress& progress);
  // The loss on the evaluation set with the weights as they are. Only for a run that evaluates.
  EvaluationResult evaluate();

  // The program that takes most memory of those that have trained; before the first step that of the longest
  // micro-batches.
  const TrainingProgram& training_program() const { return programs_.neediest().training; }
  const Executor& executor() const { return *programs_.neediest().executor; }
  const ProgramCache& programs() const { return programs_; }
  const Weights& weights() const { return weights_; }
  // What the next step depends on, between two steps.
  const TrainingState& state() const { return *state_; }
  TrainingProgress progress() const;
  // Of the evaluations so far; nothing where nothing depends on which is the best.
  const BestEvaluation& best() const { return best_.state(); }
  // Whether no step is left: all are done, or evaluation.early_stopping_patience ends the run before.
  bool is_done() const { return stops_early() || step_ >= config_.training.max_steps; }
  bool stops_early() const { return best_.patience_is_over() && step_ < config_.training.max_steps; }
  // Parameters that model.pretrained has not, such as a new head's: they were drawn.
  const std::vector<std::string>& drawn() const { return drawn_; }
  // Names of the classes that the data has; none where it does not name them.
  const std::vector<std::string>& labels() const { return labels_; }
  // On what was left out of the files of data.
  const std::vector<std::string>& data_remarks() const { return data_remarks_; }
  // Of the training data; 0 where it never ends.
  int64_t samples() const {
    const Dataset* const samples = data_.training.dataset.get();
    const bool endless = config_.data.format == DataFormat::kRandom && config_.data.samples == 0;
    return samples && !endless ? samples->size() : 0;
  }
  TrainedSoFar so_far() const;
  // How often the training data has been gone through, in fractions; 0 where it never ends.
  double epoch() const;
  // Bytes of the data's index that this process has in common with others of its node; those of which another counts them.
  uint64_t shared_index(bool counted_elsewhere = false) const {
    uint64_t bytes = 0;
    for (const OpenedData* data : {&data_.training, &data_.evaluation})
      if (!counted_elsewhere || !data->index.counts) bytes += data->index.bytes;
    return bytes;
  }
  // How full the samples are that documents were packed into; "" where none were.
  const std::string& packing() const { return data_.training.packing; }
  const std::string& mixture() const { return data_.training.mixture; }  // of several sets; "" of one
  const Mesh& mesh() const { return mesh_; }
  // Of the latest steps, the median of the seconds in which this rank waited for no other; 0 while they are few.
  double own_seconds() const;
  // For reports. The session must outlive them.
  Measurements measurements() const {
    return {.programs = programs_,
            .mesh = mesh_,
            .collectives = meter_.times(),
            .times = times_,
            .adapted = adaptation_ ? adaptation_->report() : ""};
  }

 private:
  // Runs what uses the device, and asks the devices' communicators, at the same places on every rank, whether
  // anybody was lost meanwhile: where that is so, it is the news, whatever else went wrong because of it.
  template <typename Run>
  void on_device(Run run);
  void begin_weights(const Restore& restore);
  void begin_data();
  // A micro-batch, into the inputs of the program.
  void load(const ReadyProgram& ready, RunState& state, const MicroBatch& micro);
  // One after the other. Returns the program of the last.
  const ReadyProgram& run_micro_batches(const StepBatch& batch, const TargetCounts& valid, RunState& state);
  void note_memory(const StepBatch& batch, StepResult& result);
  // Before a step: plans again where that is due, and begins to record the step where it is to be.
  void adapt();
  void begin_recording(const MicroBatch& first);
  // Inputs of the program, for as long as no other one runs.
  void set_scalars(const ReadyProgram& ready, const TargetCounts& valid, double loss_scale);
  double scalar(const ReadyProgram& ready, ValueId value) const;
  double waited_in_step();
  // Collective. Runs the first micro-batch twice, the second time for good.
  void run_verified(const ReadyProgram& ready, const RunState& state);
  // Collective, both.
  void judge(const StepBatch& batch, const TargetCounts& valid, const RunState& state, StepResult& result);
  std::string explain_non_finite(const StepBatch& batch, const TargetCounts& valid, RunState state,
                                 const StepResult& result);

  Config config_;
  StartClock clock_;
  RunData data_;  // before the programs, which predict memory
  Backend backend_;
  Mesh mesh_;
  CollectiveMeter meter_;
  OpDigests digests_;
  ProgramCache programs_;
  const ReadyProgram& longest_;
  std::unique_ptr<Adaptation> adaptation_;  // null: the plan stays
  int64_t profiled_step_, recorded_from_ = std::numeric_limits<int64_t>::max();
  BatchPrograms batch_programs_;
  Weights weights_;
  std::unique_ptr<TrainingState> state_;  // null where nothing is trained
  std::vector<std::string> drawn_, labels_, data_remarks_;
  TaskData task_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<Evaluation> evaluation_;
  BestSoFar best_;
  LearningRateSchedule schedule_;
  LossScale loss_scale_;
  SpikeDetector spikes_;
  int64_t not_finite_ = 0;       // steps that were skipped in a row, or rollbacks
  std::vector<double> scalars_;  // of the optimizer's rule, for the step
  // The steps' times, and less what this rank waited for others.
  StepTimes times_, own_times_;
  CollectiveMeter::Waiting waited_;  // for others, in all of them
  double stood_for_streams_ = 0;     // that talk to others
  int64_t step_ = 0;                 // steps done
  int64_t steps_here_ = 0;           // of them, since this session began
  int64_t first_batch_ = 0;          // of the loader: where a resumed run goes on
  int64_t updates_ = 0;              // of them, those that were not skipped
};

}  // namespace recollect
