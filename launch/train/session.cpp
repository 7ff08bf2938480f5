#include "launch/train/session.h"

#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "comm/agree.h"
#include "engine/core/hash.h"
#include "engine/data/dataset.h"
#include "engine/io/safetensors.h"
#include "launch/config/warmup.h"
#include "launch/program/limits.h"
#include "launch/program/phase_table.h"

namespace recollect {

namespace {

DatasetSpec dataset_spec(const Config& config, DataFormat format, const std::vector<std::string>& paths) {
  return {.format = std::string(name_of(format)),
          .paths = paths,
          .sequence_length = config.data.sequence_length,
          .vocabulary_size = config.model.facts().vocabulary.value,
          .dtype = std::string(name_of(config.data.dtype)),
          .random_low = config.data.low,
          .random_high = config.data.high,
          .seed = static_cast<uint64_t>(config.data.seed)};
}

LoaderOptions loader_options(const Config& config, const Mesh& mesh) {
  return {.micro_batch_size = config.training.micro_batch_size,
          .accumulation_steps = config.training.gradient_accumulation_steps,
          .data_rank = mesh.data_rank(),
          .data_size = mesh.data_size(),
          .prefetch = config.data.prefetch};
}

LearningRateSchedule rate_schedule(const Config& config) {
  const Config::Scheduler& s = config.scheduler;
  return {.name = s.name,
          .peak = config.optimizer.learning_rate,
          .minimum = s.min_lr,
          .warmup_steps = warmup_steps(config),
          .total_steps = config.training.max_steps};
}

LossScale loss_scale(const Config::Training& t) {
  if (!t.scales_loss()) return LossScale::fixed(1);
  return t.dynamic_loss_scale() ? LossScale::dynamic(t.initial_loss_scale, t.loss_scale_window)
                                : LossScale::fixed(t.loss_scale);
}

std::unique_ptr<StepRecorder> make_recorder(const Config& config, const TrainingProgram& training,
                                            ExecutorProbe* probe) {
  if (config.profiling.step == 0) return nullptr;
  return std::make_unique<StepRecorder>(training.program.graph, config.training.gradient_accumulation_steps,
                                        probe);
}

TrainingProgram make_program(const Config& config, const Mesh& mesh, Backend& backend,
                             const SessionParts& parts) {
  TrainingProgram training = make_training_program(config, mesh, backend.kernels());
  if (parts.edit_program) parts.edit_program(training);
  return training;
}

// What cannot fit, on the device or on the disk, is refused before any memory is reserved.
std::unique_ptr<Executor> make_executor(const Config& config, TrainingProgram& training, Backend& backend,
                                        const Mesh& mesh, ExecutorProbe* probe, ResidentMemory& resident) {
  Communicator& world = mesh.world();
  const MemoryLedger& predicted = training.program.predicted();
  std::string table = phase_table("predicted", predicted);
  table.pop_back();  // a message ends without a line's end
  check_limits(config, predicted, table, share_of(backend.device(), predicted.arena_bytes(), world));
  const uint64_t on_host = predicted.host_bytes + save_buffer_bytes(config) +
                           (backend.device().memory() ? 0 : predicted.arena_bytes());
  check_host_share(on_host, share_of_group(memory_group(), on_host, world));
  if (!backend.device().memory())  // all have planned, and none goes on before all have looked
    resident = predict_resident(resident_needs(config, predicted), world);
  if (training.disk) training.disk->open(training.program.predicted().disk_bytes);
  std::unique_ptr<Executor> executor;
  backend.choose_alike(world, [&] {
    executor = std::make_unique<Executor>(std::move(training.program), backend.device(), probe);
  });
  return executor;
}

// The ranks that share a model must have read the same batch of it: files may differ where no sample has
// looked.
void check_batch(const Config& config, const Mesh& mesh, const StepBatch& batch) {
  Communicator& tensor = mesh.host_communicator(kTensorAxis);
  if (!config.activation_checkpointing.verify || tensor.size() == 1) return;
  const auto hash_of = [](const std::vector<int32_t>& ids) {
    return fmt::format("{:016x}", hash_bytes(ids.data(), ids.size() * sizeof(int32_t)));
  };
  check_texts_agree(
      {{"ids", hash_of(batch.ids)}, {"labels", hash_of(batch.labels)}},
      fmt::format("batches in step {} (tensor ranks of data rank {})", batch.step + 1, mesh.data_rank()),
      "their files differ: give every rank the same", tensor);
}

}  // namespace

Session::Session(const Config& config, Communicator& world, const SessionParts& parts)
    : config_(config),
      backend_(config, world),
      mesh_(world,
            training_axes(config.parallelism.data_parallel_size, config.parallelism.tensor_parallel_size),
            backend_.world()),
      meter_(mesh_),
      training_program_(make_program(config_, mesh_, backend_, parts)),
      recorder_(make_recorder(config_, training_program_, parts.probe)),
      executor_(make_executor(config_, training_program_, backend_, mesh_,
                              recorder_ ? recorder_.get() : parts.probe, resident_)),
      weights_(training_program_.model, *executor_, mesh_, save_buffer_bytes(config_) > 0),
      schedule_(rate_schedule(config_)),
      loss_scale_(loss_scale(config_.training)) {
  if (training_program_.checkpointed.residency.gathered_bytes +
          training_program_.checkpointed.gathered.gathered_bytes >
      0) {
    Communicator& gathers = mesh_.communicator(kTensorAxis, StreamId::kGather);
    const Arena& arena = executor_->arena();
    if (gathers.share_memory(arena.at(0), arena.bytes()))
      executor_->set_farewell([&gathers] { gathers.unshare_memory(); });
  }
  if (config_.model.pretrained.empty())
    weights_.initialize(static_cast<uint64_t>(config_.training.seed));
  else
    weights_.load(SafetensorsSet(config_.model.pretrained), static_cast<uint64_t>(config_.training.seed));
  const Config::Evaluation& e = config_.evaluation;
  if (e.every_steps > 0)
    evaluation_ =
        std::make_unique<Evaluation>(config_, mesh_, open_dataset(dataset_spec(config_, e.format, e.path)));
  if (config_.training.max_steps == 0) return;
  dataset_ = open_dataset(dataset_spec(config_, config_.data.format, config_.data.path));
  const SampleOrder order(dataset_->size(), static_cast<uint64_t>(config_.data.seed), config_.data.shuffle);
  loader_ = std::make_unique<Loader>(*dataset_, order, loader_options(config_, mesh_));
}

void Session::load_micro_batch(const StepBatch& batch, int64_t micro_batch) {
  const Model& model = training_program_.model;
  const ValueId ids = model.input("ids"), labels = model.input("labels");
  const int64_t first = micro_batch * executor_->tensor(ids).elements();
  executor_->write(ids, batch.ids.data() + first);
  executor_->write(labels, batch.labels.data() + first);
}

void Session::set_scalars(int64_t valid_targets) {
  const double loss_scale = loss_scale_.value();
  const double scale = loss_scale / static_cast<double>(valid_targets);
  executor_->write(training_program_.model.scale, &scale);
  if (training_program_.optimizer.loss_scale != kNone)
    executor_->write(training_program_.optimizer.loss_scale, &loss_scale);
  const OptimizerHandles& optimizer = training_program_.optimizer;
  const std::vector<double> scalars =
      optimizer.rule->scalars(learning_rate(schedule_, updates_), updates_ + 1);
  executor_->write(optimizer.schedule, scalars.data());
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
  const auto start = std::chrono::steady_clock::now();
  meter_.begin_step();
  const StepBatch& batch = loader_->next();
  check_batch(config_, mesh_, batch);
  int64_t valid = batch.valid_targets;
  mesh_.host_communicator(kDataAxis).all_reduce({&valid, {1}, DType::kI64}, ReduceOp::kSum);
  if (valid == 0)
    throw Error(ExitCode::kInput,
                fmt::format("step {}: the global batch has no target that counts", step_ + 1),
                "every label is -100, or sequences have one token");
  set_scalars(valid);
  if (recorder_ && step_ + 1 == config_.profiling.step) recorder_->begin_step();
  RunState state{.seed = static_cast<uint64_t>(config_.training.seed),
                 .step = step_,
                 .micro_batches = config_.training.gradient_accumulation_steps,
                 .token_stride = config_.data.sequence_length};
  for (state.micro_batch = 0; state.micro_batch < state.micro_batches; ++state.micro_batch) {
    load_micro_batch(batch, state.micro_batch);
    state.first_sample = batch.first_sample_of(state.micro_batch);
    if (recorder_) recorder_->begin_run(*executor_, state.micro_batch);
    on_device([&] { executor_->run_micro_batch(state); });
    if (recorder_) recorder_->end_run();
  }
  if (!config_.debug.dump_gradients.empty() && step_ + 1 == config_.debug.dump_step)
    weights_.save_gradients(config_.debug.dump_gradients, loss_scale_.value());
  if (recorder_) recorder_->begin_run(*executor_, StepTimeline::kOptimizer);
  on_device([&] { executor_->run_optimizer(state); });
  if (recorder_) recorder_->end_step();

  StepResult result{.step = step_ + 1,
                    .loss = scalar(training_program_.optimizer.total_loss) / loss_scale_.value(),
                    .grad_norm = scalar(training_program_.optimizer.norm),
                    .learning_rate = learning_rate(schedule_, updates_),
                    .loss_scale = loss_scale_.value(),
                    .valid_targets = valid};
  result.tokens = config_.training.global_batch_size * config_.data.sequence_length;
  result.skipped = !std::isfinite(result.grad_norm);
  if (!std::isfinite(result.loss) || !loss_scale_.update(!result.skipped))
    explain_non_finite(batch, state, result);
  ++step_;
  if (!result.skipped) ++updates_;
  meter_.end_step();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  times_.add(result.seconds);
  return result;
}

void Session::check_trained() const {
  if (step_ > 0 && updates_ == 0)
    throw Error(ExitCode::kNumerics,
                fmt::format("none of {} steps has updated the model: gradients overflowed in each, at loss "
                            "scales down to {}",
                            step_, 2 * loss_scale_.value()),
                "lower training.initial_loss_scale, or train longer");
  if (step_ > 0) weights_.check_finite();
}

double Session::scalar(ValueId value) const {
  double result = 0;
  executor_->read(&result, value);
  return result;
}

EvaluationResult Session::evaluate() {
  EvaluationResult result;
  on_device([&] { result = evaluation_->run(*executor_, training_program_.model, step_); });
  return result;
}

void Session::explain_non_finite(const StepBatch& batch, RunState state, const StepResult& result) {
  std::string first;
  for (state.micro_batch = 0; state.micro_batch < state.micro_batches; ++state.micro_batch) {
    load_micro_batch(batch, state.micro_batch);
    state.first_sample = batch.first_sample_of(state.micro_batch);
    std::string found;
    on_device([&] { found = executor_->find_non_finite(state); });
    if (first.empty()) first = found;
  }
  const std::string scaled =
      config_.training.scales_loss() ? fmt::format(" at loss scale {}", result.loss_scale) : "";
  throw Error(ExitCode::kNumerics,
              fmt::format("step {}: loss {}, gradient norm {}{}; the first value that is not finite is {}",
                          result.step, result.loss, result.grad_norm, scaled,
                          first.empty() ? "on another data-parallel rank" : first),
              "lower optimizer.learning_rate, or look at the data of this step");
}

}  // namespace recollect
