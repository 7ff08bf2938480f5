// The training of one rank: its programs, weights and data, one step at a time. It prints nothing and writes
// no files; train() does.
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
  double loss_scale = 1;      // the scale of this step's gradients
  bool skipped = false;       // nothing was updated: not finite at this scale
  int64_t tokens = 0;         // read by all ranks, including padding
  int64_t valid_targets = 0;  // those that count in the loss, over all ranks
  double epoch = 0;           // Session::epoch() after it
  TrainedSoFar so_far = {};
  // For this rank's micro-batch with the most memory: its samples, the tokens of each including padding, and
  // the peak of its program in the device's arena, with the phase of the peak.
  int64_t samples = 0, sequence_length = 0;
  uint64_t memory_peak = 0;
  Phase peak_phase = Phase::kForward;
  double seconds = 0;
  double waited = 0;  // the part that waited for other ranks
  // The non-finite value and the samples of the batch, if the run continues nevertheless
  // (numerics.on_non_finite).
  std::string not_finite = {};
  std::string spike = {};  // the loss against earlier ones, and the samples of the batch
};

class Session {
 public:
  // `config` is resolved for this world, which must outlive the session. Reserves all memory, and loads or
  // initialises the weights. `restore`, if given, fills the state, and nothing is loaded or initialised; or
  // it returns nothing if there is nothing to resume from.
  using Restore = std::function<std::optional<TrainingProgress>(const TrainingState&)>;
  // `training_data` is given if it is open already (open_data.h). `clock` has the times of the start so far.
  Session(const Config& config, Communicator& world, const ProgramParts& parts = {},
          const Restore& restore = {}, OpenedData training_data = {}, const StartClock& clock = {});

  // The clock with the laps of this constructor.
  const StartClock& start_clock() const { return clock_; }

  // Collective, after the training. Throws kNumerics if a parameter is not finite after the last update, or
  // if no step has updated anything; the error says which.
  void check_trained() const;

  // Records every step from this one to profiling.step, not only that one.
  void record_from(int64_t step) { recorded_from_ = step; }

  // Runs one optimizer step. Throws kNumerics, naming the first bad tensor, if the loss is not finite, or if
  // gradients are not and a smaller loss scale cannot help; the weights are then unchanged. Throws
  // kIntegrity, naming rank and op, if an op gave other bits in its second run.
  StepResult step();
  // The state is that of `progress` again. Batches continue after the latest one, and the best evaluation
  // does not change.
  void go_back_to(const TrainingProgress& progress);
  // The loss on the evaluation set with the weights as they are. Only for a run that evaluates.
  EvaluationResult evaluate();

  // The program with the most memory among those that have trained; before the first step that of the longest
  // micro-batches.
  const TrainingProgram& training_program() const { return programs_.neediest().training; }
  const Executor& executor() const { return *programs_.neediest().executor; }
  const ProgramCache& programs() const { return programs_; }
  const Weights& weights() const { return weights_; }
  // Everything that the next step depends on; valid between two steps.
  const TrainingState& state() const { return *state_; }
  TrainingProgress progress() const;
  // The best evaluation so far; empty if the run does not compare evaluations.
  const BestEvaluation& best() const { return best_.state(); }
  // Whether no step is left: all are done, or evaluation.early_stopping_patience ends the run early.
  bool is_done() const { return stops_early() || step_ >= config_.training.max_steps; }
  bool stops_early() const { return best_.patience_is_over() && step_ < config_.training.max_steps; }
  // Parameters that model.pretrained lacks, such as a new head, and that were initialised at random.
  const std::vector<std::string>& drawn() const { return drawn_; }
  // The class names in the data; empty if it has none.
  const std::vector<std::string>& labels() const { return labels_; }
  // Remarks on skipped parts of the data files.
  const std::vector<std::string>& data_remarks() const { return data_remarks_; }
  // The size of the training data; 0 if it is endless.
  int64_t samples() const {
    const Dataset* const samples = data_.training.dataset.get();
    const bool endless = config_.data.format == DataFormat::kRandom && config_.data.samples == 0;
    return samples && !endless ? samples->size() : 0;
  }
  TrainedSoFar so_far() const;
  // The number of passes over the training data, as a fraction; 0 if it is endless.
  double epoch() const;
  // Bytes of the data's index that this process shares with others on its node; with `counted_elsewhere` only
  // those that another process counts.
  uint64_t shared_index(bool counted_elsewhere = false) const {
    uint64_t bytes = 0;
    for (const OpenedData* data : {&data_.training, &data_.evaluation})
      if (!counted_elsewhere || !data->index.counts) bytes += data->index.bytes;
    return bytes;
  }
  // How full packed samples are; "" without packing.
  const std::string& packing() const { return data_.training.packing; }
  const std::string& mixture() const { return data_.training.mixture; }  // with several sets; "" with one
  const Mesh& mesh() const { return mesh_; }
  // The median over the latest steps of the seconds in which this rank did not wait for others; 0 while there
  // are few steps.
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
  // Runs work on the device, and then asks the devices' communicators whether a peer was lost, at the same
  // places on every rank. If one was, that is the error to report, whatever else failed because of it.
  template <typename Run>
  void on_device(Run run);
  void begin_weights(const Restore& restore);
  void begin_data();
  // Copies a micro-batch to the inputs of the program.
  void load(const ReadyProgram& ready, RunState& state, const MicroBatch& micro);
  // Runs all micro-batches of a step in order. Returns the program of the last.
  const ReadyProgram& run_micro_batches(const StepBatch& batch, const TargetCounts& valid, RunState& state);
  void note_memory(const StepBatch& batch, StepResult& result);
  // Before a step: plans again if that is due, and starts recording if the step is to be recorded.
  void adapt();
  void begin_recording(const MicroBatch& first);
  // Sets scalar inputs; they are valid until another program runs.
  void set_scalars(const ReadyProgram& ready, const TargetCounts& valid, double loss_scale);
  double scalar(const ReadyProgram& ready, ValueId value) const;
  double waited_in_step();
  // Collective. Runs the first micro-batch twice; the second run counts.
  void run_verified(const ReadyProgram& ready, const RunState& state);
  // Both are collective.
  void judge(const StepBatch& batch, const TargetCounts& valid, const RunState& state, StepResult& result);
  std::string explain_non_finite(const StepBatch& batch, const TargetCounts& valid, RunState state,
                                 const StepResult& result);

  Config config_;
  StartClock clock_;
  RunData data_;  // opened before the programs predict memory
  Backend backend_;
  Mesh mesh_;
  CollectiveMeter meter_;
  OpDigests digests_;
  ProgramCache programs_;
  const ReadyProgram& longest_;
  std::unique_ptr<Adaptation> adaptation_;  // null: no new plans
  int64_t profiled_step_, recorded_from_ = std::numeric_limits<int64_t>::max();
  BatchPrograms batch_programs_;
  Weights weights_;
  std::unique_ptr<TrainingState> state_;  // null if nothing is trained
  std::vector<std::string> drawn_, labels_, data_remarks_;
  TaskData task_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<Evaluation> evaluation_;
  BestSoFar best_;
  LearningRateSchedule schedule_;
  LossScale loss_scale_;
  SpikeDetector spikes_;
  int64_t not_finite_ = 0;       // steps that were skipped in a row, or rollbacks
  std::vector<double> scalars_;  // of the optimizer's rule for the step
  // The times of steps, with and without waits for other ranks.
  StepTimes times_, own_times_;
  CollectiveMeter::Waiting waited_;  // for other ranks, in all steps
  double stood_for_streams_ = 0;     // waits for streams with collectives
  int64_t step_ = 0;                 // steps done
  int64_t steps_here_ = 0;           // since this session began
  int64_t first_batch_ = 0;          // of the loader in a resumed run
  int64_t updates_ = 0;              // steps that were not skipped
};

}  // namespace recollect
