#include "launch/train/evaluation.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "engine/data/loader.h"

namespace recollect {

bool evaluation_due(const Config& config, int64_t steps_done) {
  const int64_t every = config.evaluation.every_steps;
  return every > 0 && (steps_done % every == 0 || steps_done == config.training.max_steps);
}

Evaluation::Evaluation(const Config& config, const Mesh& mesh, std::unique_ptr<Dataset> dataset)
    : mesh_(mesh), dataset_(std::move(dataset)) {
  const int64_t together = config.training.micro_batch_size * mesh.data_size();
  const int64_t all = (dataset_->size() - 1) / together + 1;
  const int64_t tokens = config.training.micro_batch_size * config.data.sequence_length;
  ids_.resize(static_cast<std::size_t>(tokens));
  labels_.resize(ids_.size());
  micro_batches_ = config.evaluation.batches > 0 ? std::min(config.evaluation.batches, all) : all;
}

// As in training, the micro-batches of the data ranks follow one another.
Evaluation::Read Evaluation::load(const Executor& executor, const Model& model, int64_t micro_batch) {
  const ValueId ids = model.input("ids"), labels = model.input("labels");
  const Shape shape = executor.tensor(ids).shape;
  const int64_t samples = shape[0], length = shape[1];
  const int64_t first = (micro_batch * mesh_.data_size() + mesh_.data_rank()) * samples;
  Read read;
  for (int64_t i = 0; i < samples; ++i) {
    const std::span own_ids(ids_.data() + i * length, static_cast<std::size_t>(length));
    const std::span own_labels(labels_.data() + i * length, static_cast<std::size_t>(length));
    if (first + i < dataset_->size()) {
      dataset_->read(first + i, own_ids, own_labels);
      read.tokens += length;
      read.valid_targets += count_targets(own_labels);
    } else {
      std::fill(own_ids.begin(), own_ids.end(), 0);
      std::fill(own_labels.begin(), own_labels.end(), kIgnoredLabel);
    }
  }
  executor.write(ids, ids_.data());
  executor.write(labels, labels_.data());
  return read;
}

EvaluationResult Evaluation::run(Executor& executor, const Model& model, int64_t steps_done) {
  const auto start = std::chrono::steady_clock::now();
  const double scale = 1;  // the loss is then the sum over targets
  executor.write(model.scale, &scale);
  RunState state{.step = steps_done, .micro_batches = micro_batches_, .training = false};
  int64_t counts[2] = {};
  for (; state.micro_batch < micro_batches_; ++state.micro_batch) {
    const Read read = load(executor, model, state.micro_batch);
    counts[0] += read.tokens;
    counts[1] += read.valid_targets;
    executor.run_forward(state);
  }
  double sum = 0;
  executor.read(&sum, model.loss);
  Communicator& replicas = mesh_.host_communicator(kDataAxis);
  replicas.all_reduce({&sum, {1}, DType::kF64}, ReduceOp::kSum);
  replicas.all_reduce({counts, {2}, DType::kI64}, ReduceOp::kSum);
  if (counts[1] == 0)
    throw Error(ExitCode::kInput, "evaluation: no target counts",
                "every label is -100, or sequences have one token");
  EvaluationResult result{
      .loss = sum / static_cast<double>(counts[1]), .tokens = counts[0], .valid_targets = counts[1]};
  if (!std::isfinite(result.loss))
    throw Error(ExitCode::kNumerics,
                fmt::format("evaluation after step {}: loss {}", steps_done, result.loss),
                "the weights, or what they make of evaluation.path, are not finite");
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace recollect
