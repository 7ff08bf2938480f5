#include "launch/train/evaluation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "launch/program/lengths.h"
#include "launch/program/task.h"
#include "launch/train/inputs.h"

namespace recollect {

namespace {

// Of every data rank, in one evaluation.
int64_t micro_batches(const Config& config, const Mesh& mesh, int64_t samples) {
  const int64_t all = (samples - 1) / (config.training.micro_batch_size * mesh.data_size()) + 1;
  return config.evaluation.batches > 0 ? std::min(config.evaluation.batches, all) : all;
}

// Metrics of logits; perplexity is one of the loss.
std::unique_ptr<MetricCollector> collector_of(const Config& config, const Mesh& mesh,
                                              const std::vector<MetricKind>& metrics,
                                              const EvaluationSource& source, int64_t samples,
                                              int64_t micro_batches) {
  if (std::all_of(metrics.begin(), metrics.end(),
                  [](MetricKind metric) { return metric == MetricKind::kPerplexity; }))
    return nullptr;
  const int64_t read = micro_batches * config.training.micro_batch_size * mesh.data_size();
  return make_metric_collector(task_settings(config), source, std::min(samples, read));
}

template <typename T>
void widen(const std::vector<std::byte>& bytes, std::vector<double>& numbers) {
  numbers.resize(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    T number;
    std::memcpy(&number, bytes.data() + i * sizeof(T), sizeof(T));
    numbers[i] = static_cast<double>(number);
  }
}

void widen(DType dtype, const std::vector<std::byte>& bytes, std::vector<double>& numbers) {
  switch (dtype) {
    case DType::kF64:
      return widen<double>(bytes, numbers);
    case DType::kF32:
      return widen<float>(bytes, numbers);
    case DType::kBF16:
      return widen<bf16>(bytes, numbers);
    case DType::kF16:
      return widen<f16>(bytes, numbers);
    default:
      throw Error(ExitCode::kInternal, "logits that are no numbers");
  }
}

}  // namespace

bool evaluation_due(const Config& config, int64_t steps_done) {
  const int64_t every = config.evaluation.every_steps;
  return every > 0 && (steps_done % every == 0 || steps_done == config.training.max_steps);
}

Evaluation::Evaluation(const Config& config, const Mesh& mesh, std::unique_ptr<Dataset> dataset,
                       const Collator& collator, const EvaluationSource& source)
    : mesh_(mesh),
      dataset_(std::move(dataset)),
      rows_(collator.rows()),
      micro_batches_(micro_batches(config, mesh, dataset_->size())),
      metrics_(choose_metrics(task_settings(config), source.known(), config.evaluation.metrics)),
      collector_(collector_of(config, mesh, metrics_, source, dataset_->size(), micro_batches_)),
      loader_(*dataset_, collator, SampleOrder(dataset_->size(), 0, false),
              {.micro_batch_size = config.training.micro_batch_size,
               .data_rank = mesh.data_rank(),
               .data_size = mesh.data_size(),
               .pad_to_multiple_of = length_multiple(config),
               .cycle = micro_batches_}) {}

EvaluationResult Evaluation::run(BatchPrograms& programs, int64_t steps_done) {
  const auto start = std::chrono::steady_clock::now();
  TargetWeights weights;
  weights.fill(1);  // the loss is then the sum over targets, of all columns
  const ReadyProgram* ready = nullptr;
  RunState state{.step = steps_done, .micro_batches = micro_batches_, .training = false};
  int64_t counts[2] = {};
  if (collector_) collector_->clear();
  for (; state.micro_batch < micro_batches_; ++state.micro_batch) {
    const StepBatch& batch = loader_.next();
    const MicroBatch& micro = batch.micro_batches[0];
    programs.prepare(batch.micro_batches);
    if (const ReadyProgram& next = programs.of(micro); &next != ready) {
      ready = &next;
      ready->executor->write(ready->training.model.scale, weights.data());
    }
    write_inputs(*ready->executor, ready->training.model, micro.fields);
    counts[0] += micro.samples * rows_ * micro.length;
    counts[1] += total(batch.valid_targets);
    ready->executor->run_forward(state);
    if (collector_ && micro.samples > 0) collect(*ready, micro);
  }
  double sum = 0;
  ready->executor->read(&sum, ready->training.model.loss);
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
  result.metrics = metrics(result.loss);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

void Evaluation::collect(const ReadyProgram& ready, const MicroBatch& micro) {
  const ValueId logits = ready.training.model.logits;
  require(logits != kNone && ready.executor->outlives_forward(logits), "logits are gone after forward");
  const Tensor tensor = ready.executor->tensor(logits);
  bytes_.resize(tensor.bytes());
  ready.executor->read(bytes_.data(), logits);
  widen(tensor.dtype, bytes_, logits_);
  collector_->add(micro, logits_);
}

MetricList Evaluation::metrics(double loss) {
  MetricList list;
  if (collector_) collector_->reduce(mesh_.host_communicator(kDataAxis));
  for (const MetricKind metric : metrics_)
    if (metric == MetricKind::kPerplexity)
      list.add("perplexity", std::exp(loss));
    else
      collector_->report(metric, list);
  return list;
}

}  // namespace recollect
