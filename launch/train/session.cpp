#include "launch/train/session.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/agree.h"
#include "comm/gather_texts.h"
#include "engine/core/hash.h"
#include "engine/io/safetensors.h"
#include "launch/config/rate_schedule.h"
#include "launch/program/lengths.h"
#include "launch/program/limits.h"
#include "launch/program/load_weights.h"
#include "launch/program/task.h"
#include "launch/train/inputs.h"
#include "launch/train/loader_options.h"
#include "launch/train/open_data.h"

namespace recollect {

namespace {

constexpr int64_t kStepsToTell = 10;  // before a slow rank is reported

LossScale loss_scale(const Config::Training& t) {
  if (!t.scales_loss()) return LossScale::fixed(1);
  return t.dynamic_loss_scale() ? LossScale::dynamic(t.initial_loss_scale, t.loss_scale_window)
                                : LossScale::fixed(t.loss_scale);
}

// The tensor ranks must have read the same batch: files may differ in places that the comparison at the start
// did not sample.
void check_batch(const Config& config, const Mesh& mesh, const StepBatch& batch) {
  Communicator& tensor = mesh.host_communicator(kTensorAxis);
  if (!config.activation_checkpointing.verify || tensor.size() == 1) return;
  std::map<std::string, std::string> hashes;  // by field, over all micro-batches
  for (const MicroBatch& micro : batch.micro_batches)
    for (const Field& field : micro.fields)
      hashes[field.name] +=
          fmt::format("{:016x}", hash_bytes(field.values.data(), field.values.size() * sizeof(int32_t)));
  check_texts_agree(
      hashes,
      fmt::format("batches in step {} (tensor ranks of data rank {})", batch.step + 1, mesh.data_rank()),
      "their files differ: give every rank the same", tensor);
}

// Collective. The samples of a step on all data ranks, by their index in the dataset.
std::string samples_text(const StepBatch& batch, DataFormat format, const Mesh& mesh) {
  constexpr std::size_t kMost = 16;  // listed per rank
  std::vector<int64_t> mine;
  for (const MicroBatch& micro : batch.micro_batches)
    mine.insert(mine.end(), micro.indices.begin(), micro.indices.end());
  const std::size_t more = mine.size() - std::min(mine.size(), kMost);
  mine.resize(mine.size() - more);
  std::string text = fmt::format("{}", fmt::join(mine, ", "));
  if (more > 0) text += fmt::format(" and {} more", more);
  const std::vector<std::string> all = gather_texts(text, mesh.world());
  std::string joined;
  for (std::size_t rank = 0; rank < all.size(); rank += static_cast<std::size_t>(mesh.tensor_size()))
    joined += (joined.empty() ? "" : "; ") + all[rank];
  return fmt::format("samples (from 0, in the order {}): {}",
                     format == DataFormat::kRandom ? "in which they are drawn" : "of the files", joined);
}

}  // namespace

Session::Session(const Config& config, Communicator& world, const ProgramParts& parts, const Restore& restore,
                 OpenedData training_data, const StartClock& clock)
    : config_(config),
      clock_(clock),
      data_(open_run_data(config_, world, std::move(training_data))),
      backend_(clock_.lap_before(StartPart::kData, config), world),
      mesh_(world, mesh_axes(config), backend_.world()),
      meter_(mesh_),
      digests_(parts.probe),
      programs_(clock_.lap_before(StartPart::kDevice, config_), mesh_, backend_, all_batch_shapes(config_),
                {parts.edit_program, config_.numerics.verify_every > 0 ? &digests_ : parts.probe}),
      longest_(programs_.at(batch_shape(config_))),
      adaptation_(config_.activation_checkpointing.replan_after > 0
                      ? std::make_unique<Adaptation>(config_, mesh_, programs_)
                      : nullptr),
      profiled_step_(config_.profiling.step),
      batch_programs_(config_, mesh_, programs_, config_.training.gradient_accumulation_steps),
      weights_(longest_.training.model, longest_.executor->program().graph, programs_.memory(), mesh_,
               save_buffer_bytes(config_) > 0),
      task_(task_data(config_)),
      best_(config_),
      schedule_(rate_schedule(config_)),
      loss_scale_(loss_scale(config_.training)),
      spikes_(config_.numerics.spike_z_score) {
  clock_.lap(StartPart::kPlanning);
  clock_.move(programs_.reserving_seconds(), StartPart::kPlanning, StartPart::kMemory);
  begin_weights(restore);
  clock_.lap(StartPart::kParameters);
  require(config_.training.epochs == 0, "steps of a run that still counts epochs");
  begin_data();
  clock_.lap(StartPart::kData);
  if (evaluation_ && best_.judges()) evaluation_->check_reports(config_.evaluation.metric_for_best_model);
}

void Session::begin_weights(const Restore& restore) {
  if (config_.training.max_steps > 0)
    state_ = std::make_unique<TrainingState>(longest_.training.model, longest_.executor->program().graph,
                                             programs_.memory(), mesh_);
  if (const std::optional<TrainingProgress> done = restore && state_ ? restore(*state_) : std::nullopt) {
    step_ = done->step;
    updates_ = done->updates;
    loss_scale_.restore(done->loss_scale, done->updates_at_scale);
    not_finite_ = done->not_finite;
    best_.restore(done->best);
    const int64_t batch = config_.training.global_batch_size;
    if (done->samples % batch != 0)
      throw Error(
          ExitCode::kInput,
          fmt::format(
              "the snapshot was saved after {} samples, which training.global_batch_size {} does not divide",
              done->samples, batch),
          "resume with a batch size that does, such as the one it was saved with");
    first_batch_ = done->samples / batch;
    if (profiled_step_ > 0) profiled_step_ = std::min(config_.training.max_steps, step_ + profiled_step_);
    load_stored_base(config_, longest_.training.model, weights_);
    return;
  }
  drawn_ = load_weights(config_, longest_.training.model, weights_);
}

TrainingProgress Session::progress() const {
  const int64_t batches = first_batch_ + steps_here_;
  return {.step = step_,
          .updates = updates_,
          .samples = batches * config_.training.global_batch_size,
          .loss_scale = loss_scale_.value(),
          .updates_at_scale = loss_scale_.in_a_row(),
          .not_finite = not_finite_,
          .best = best_.state()};
}

TrainedSoFar Session::so_far() const {
  const int64_t batch = config_.training.global_batch_size;
  return {.step = step_, .seen = (first_batch_ + steps_here_) * batch, .batch = batch, .samples = samples()};
}

double Session::epoch() const {
  const TrainedSoFar now = so_far();
  return now.samples == 0 ? 0 : static_cast<double>(now.seen) / static_cast<double>(now.samples);
}

void Session::begin_data() {
  labels_ = data_.training.labels;
  data_remarks_ = data_.training.remarks;
  if (const Dataset* const samples = data_.training.dataset.get()) {
    const SampleOrder order(samples->size(), static_cast<uint64_t>(config_.data.seed), config_.data.shuffle);
    LoaderOptions options = loader_options(config_, mesh_.data_rank(), mesh_.data_size());
    options.start_step = first_batch_;
    loader_ = std::make_unique<Loader>(*samples, *task_.collator, order, options);
  }
  if (!config_.evaluation.runs()) return;
  OpenedData& evaluated = data_.evaluation;
  labels_ = evaluated.labels;
  data_remarks_.insert(data_remarks_.end(), evaluated.remarks.begin(), evaluated.remarks.end());
  evaluation_ = std::make_unique<Evaluation>(config_, mesh_, std::move(evaluated), *task_.collator);
}

void Session::load(const ReadyProgram& ready, RunState& state, const MicroBatch& micro) {
  write_inputs(*ready.executor, ready.training.model, micro.fields);
  state.first_sample = micro.first_sample * task_.collator->rows();
}

void Session::set_scalars(const ReadyProgram& ready, const TargetCounts& valid, double loss_scale) {
  const auto columns = ready.executor->tensor(ready.training.model.scale).elements();
  TargetWeights scale{};  // each column's mean has the same weight
  for (std::size_t c = 0; c < scale.size(); ++c)
    if (valid[c] > 0) scale[c] = loss_scale / static_cast<double>(columns * valid[c]);
  ready.executor->write(ready.training.model.scale, scale.data());
  const OptimizerHandles& optimizer = ready.training.optimizer;
  if (optimizer.loss_scale != kNone) ready.executor->write(optimizer.loss_scale, &loss_scale);
  optimizer.rule->scalars(learning_rate(schedule_, updates_), updates_ + 1, scalars_);
  ready.executor->write(optimizer.schedule, scalars_.data());
}

template <typename Run>
void Session::on_device(Run run) {
  Communicator* const values = backend_.world();
  try {
    run();
  } catch (...) {
    if (values) values->check();
    throw;
  }
  if (values) values->check();
}

StepResult Session::step() {
  adapt();
  const auto start = std::chrono::steady_clock::now();
  meter_.begin_step();
  const StepBatch& batch = loader_->next();
  check_batch(config_, mesh_, batch);
  TargetCounts valid = batch.valid_targets;
  mesh_.host_communicator(kDataAxis).all_reduce(
      {valid.data(), {static_cast<int64_t>(valid.size())}, DType::kI64}, ReduceOp::kSum);
  if (total(valid) == 0)
    throw Error(ExitCode::kInput,
                fmt::format("step {}: the global batch has no target that counts", step_ + 1),
                "every label is -100, or sequences have one token");
  batch_programs_.prepare(batch.micro_batches);
  begin_recording(batch.micro_batches.front());
  StepRecorder* const recorder = programs_.recorder();
  RunState state{.seed = static_cast<uint64_t>(config_.training.seed),
                 .step = step_,
                 .micro_batches = config_.training.gradient_accumulation_steps,
                 .token_stride = config_.data.sequence_length};
  const ReadyProgram& ready = run_micro_batches(batch, valid, state);
  if (!config_.debug.dump_gradients.empty() && step_ + 1 == config_.debug.dump_step)
    weights_.save_gradients(config_.debug.dump_gradients, loss_scale_.value());
  if (recorder) recorder->begin_run(*ready.executor, StepTimeline::kOptimizer);
  on_device([&] { ready.executor->run_optimizer(state); });
  if (recorder) recorder->end_step();

  StepResult result{
      .step = step_ + 1,
      .loss = scalar(ready, ready.training.optimizer.total_loss) / loss_scale_.value(),
      .grad_norm = scalar(ready, ready.training.optimizer.norm),
      .learning_rate = ready.training.optimizer.rule->rate(learning_rate(schedule_, updates_), updates_ + 1),
      .loss_scale = loss_scale_.value(),
      .tokens = batch_programs_.tokens(),
      .valid_targets = total(valid)};
  note_memory(batch, result);
  result.skipped = !std::isfinite(result.grad_norm) || !std::isfinite(result.loss);
  judge(batch, valid, state, result);
  ++step_;
  ++steps_here_;
  result.epoch = epoch();
  result.so_far = so_far();
  if (!result.skipped) ++updates_;
  meter_.end_step();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  times_.add(result.seconds);
  result.waited = waited_in_step();
  own_times_.add(result.seconds - result.waited);
  if (adaptation_) adaptation_->end_step(result.seconds);
  return result;
}

void Session::note_memory(const StepBatch& batch, StepResult& result) {
  for (const MicroBatch& micro : batch.micro_batches) {
    const MemoryLedger& used =
        batch_programs_.of(micro).executor->program().predicted();  // exact with real kernels
    const uint64_t peak = used.peak();
    if (peak <= result.memory_peak) continue;
    result.memory_peak = peak;
    result.samples = config_.training.micro_batch_size;
    result.sequence_length = micro.length;
    for (int phase = 0; phase < kPhaseCount; ++phase)
      if (MemoryLedger::sum(used.at_peak[phase]) == peak) result.peak_phase = static_cast<Phase>(phase);
  }
}

// The seconds of the latest step in which this rank waited for others: in collectives on the compute stream,
// and for streams that waited in collectives.
double Session::waited_in_step() {
  const CollectiveMeter::Waiting now = meter_.waiting(), before = std::exchange(waited_, now);
  const double stands = exposed_seconds(programs_, StreamId::kCommunication) +
                        exposed_seconds(programs_, StreamId::kGather) + joined_seconds(programs_);
  const double stood = stands - std::exchange(stood_for_streams_, stands);
  return now.in_place - before.in_place + std::min(now.aside - before.aside, stood);
}

double Session::own_seconds() const { return own_times_.steps() < kStepsToTell ? 0 : own_times_.median(); }

void Session::adapt() {
  if (!adaptation_ || !adaptation_->is_due_after(steps_here_)) return;
  bool replaced = false;
  on_device([&] { replaced = adaptation_->replan(); });
  if (replaced) times_.restart();
  if (profiled_step_ > 0) profiled_step_ = std::max(profiled_step_, step_ + 1);  // the recorder was in use
}

// Measurements for a new plan record any program; a profile records only the program that reports describe.
void Session::begin_recording(const MicroBatch& first) {
  StepRecorder* const recorder = programs_.recorder();
  const bool measures = adaptation_ && adaptation_->records_after(steps_here_);
  const int64_t step = step_ + 1;
  const bool is_shown = step <= profiled_step_ && step >= std::min(profiled_step_, recorded_from_);
  if (!recorder || (!measures && !is_shown)) return;
  const ReadyProgram& ready = measures ? batch_programs_.of(first) : longest_;
  if (const Graph& graph = ready.executor->program().graph; !recorder->is_of(graph)) recorder->restart(graph);
  recorder->begin_step(step_ + 1);
}

const ReadyProgram& Session::run_micro_batches(const StepBatch& batch, const TargetCounts& valid,
                                               RunState& state) {
  StepRecorder* const recorder = programs_.recorder();
  ReadyProgram* ready = nullptr;
  for (state.micro_batch = 0; state.micro_batch < state.micro_batches; ++state.micro_batch) {
    const auto start = std::chrono::steady_clock::now();
    const MicroBatch& micro = batch.micro_batches[static_cast<std::size_t>(state.micro_batch)];
    if (ReadyProgram& next = batch_programs_.of(micro); &next != ready) {
      ready = &next;
      set_scalars(*ready, valid, loss_scale_.value());
    }
    load(*ready, state, micro);
    if (recorder) recorder->begin_run(*ready->executor, state.micro_batch);
    const bool verified = state.first_micro_batch() && config_.numerics.verify_every > 0 &&
                          (step_ + 1) % config_.numerics.verify_every == 0;
    if (verified)
      run_verified(*ready, state);
    else
      on_device([&] { ready->executor->run_micro_batch(state); });
    if (recorder) recorder->end_run();
    ++ready->micro_batches;
    ready->seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (adaptation_) adaptation_->ran(*ready);
  }
  return *ready;
}

void Session::run_verified(const ReadyProgram& ready, const RunState& state) {
  std::vector<uint32_t> digests[2];
  for (std::vector<uint32_t>& of_run : digests) {
    digests_.begin(*ready.executor);
    on_device([&] { ready.executor->run_micro_batch(state); });
    of_run = digests_.end();
  }
  // Collectives spread a wrong value to other ranks, so that the rank with the earliest differing op caused
  // it.
  Communicator& world = mesh_.world();
  const int64_t differs = OpDigests::first_difference(digests[0], digests[1]);
  std::vector<int64_t> all(static_cast<std::size_t>(world.size()));
  int64_t mine = differs < 0 ? std::numeric_limits<int64_t>::max() : differs;
  world.all_gather({&mine, {1}, DType::kI64}, {all.data(), {world.size()}, DType::kI64});
  const auto first = std::min_element(all.begin(), all.end());
  if (*first == std::numeric_limits<int64_t>::max()) return;
  throw SharedError(
      ExitCode::kIntegrity,
      fmt::format("step {}: on rank {} {} gave other bits when it was run again", step_ + 1,
                  first - all.begin(), ready.executor->program().graph.op(static_cast<OpId>(*first)).name),
      "take that rank's machine out of the run, and go on from a snapshot",
      first - all.begin() != world.rank());
}

void Session::judge(const StepBatch& batch, const TargetCounts& valid, const RunState& state,
                    StepResult& result) {
  const bool good = loss_scale_.update(std::isfinite(result.grad_norm)) && std::isfinite(result.loss);
  if (good) {
    if (const double z = spikes_.look(result.loss); z > 0)
      result.spike = fmt::format("loss {:.4f} is {:.1f} standard deviations above the last ones; {}",
                                 result.loss, z, samples_text(batch, config_.data.format, mesh_));
    if (config_.numerics.on_non_finite == OnNonFinite::kSkip) not_finite_ = 0;
    return;
  }
  result.not_finite = fmt::format("{}; {}", explain_non_finite(batch, valid, state, result),
                                  samples_text(batch, config_.data.format, mesh_));
  if (config_.numerics.on_non_finite == OnNonFinite::kStop || ++not_finite_ > config_.numerics.max_non_finite)
    throw SharedError(
        ExitCode::kNumerics, result.not_finite,
        config_.optimizer.epsilon == 0 && config_.origins.contains("optimizer.epsilon")
            ? "optimizer.epsilon 0 divides by zero where a weight has had no gradient: leave it out"
            : "lower optimizer.learning_rate, or look at the data of this step",
        mesh_.world().rank() != 0);
  loss_scale_.raise_to(1);
}

void Session::go_back_to(const TrainingProgress& progress) {
  step_ = progress.step;
  updates_ = progress.updates;
  loss_scale_.restore(progress.loss_scale, progress.updates_at_scale);
}

void Session::check_trained() const {
  if (step_ > 0 && updates_ == 0)
    throw SharedError(
        ExitCode::kNumerics,
        fmt::format("none of {} steps has updated the model: gradients overflowed in each, at loss "
                    "scales down to {}",
                    step_, 2 * loss_scale_.value()),
        "lower training.initial_loss_scale, or train longer", mesh_.world().rank() != 0);
  if (step_ > 0)
    weights_.check_finite(
        "The trained model is not saved" +
        (config_.saves_snapshots() ? "; snapshots are in " + config_.snapshot_folder() : ""));
}

double Session::scalar(const ReadyProgram& ready, ValueId value) const {
  double result = 0;
  ready.executor->read(&result, value);
  return result;
}

EvaluationResult Session::evaluate() {
  EvaluationResult result;
  on_device([&] { result = evaluation_->run(batch_programs_, step_); });
  result.epoch = epoch();
  if (!best_.judges()) return result;
  double value = metric_value(result, config_.evaluation.metric_for_best_model);
  mesh_.world().broadcast({&value, {1}, DType::kF64}, 0);  // so that all ranks end after the same step
  result.is_best = best_.look(value, step_);
  return result;
}

std::string Session::explain_non_finite(const StepBatch& batch, const TargetCounts& valid, RunState state,
                                        const StepResult& result) {
  std::string first;
  for (state.micro_batch = 0; state.micro_batch < state.micro_batches; ++state.micro_batch) {
    const MicroBatch& micro = batch.micro_batches[static_cast<std::size_t>(state.micro_batch)];
    const ReadyProgram& ready = batch_programs_.of(micro);
    set_scalars(ready, valid, result.loss_scale);
    load(ready, state, micro);
    std::string found;
    on_device([&] { found = ready.executor->find_non_finite(state); });
    if (first.empty()) first = found;
  }
  const std::vector<std::string> of_ranks = gather_texts(first, mesh_.world());
  const auto named =
      std::find_if(of_ranks.begin(), of_ranks.end(), [](const auto& of) { return !of.empty(); });
  first = named == of_ranks.end() ? "not there when the step is run again" : *named;
  if (named != of_ranks.end() && of_ranks.size() > 1)
    first += fmt::format(" on rank {}", named - of_ranks.begin());
  const std::string scaled =
      config_.training.scales_loss() ? fmt::format(" at loss scale {}", result.loss_scale) : "";
  const auto plain = [](double number) {
    return std::isnan(number) ? std::fabs(number) : number;
  };  // avoids -nan
  return fmt::format("step {}: loss {}, gradient norm {}{}; the first value that is not finite is {}",
                     result.step, plain(result.loss), plain(result.grad_norm), scaled, first);
}

}  // namespace recollect
