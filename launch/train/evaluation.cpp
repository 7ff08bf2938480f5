#include "launch/train/evaluation.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/agree.h"
#include "engine/data/glue.h"
#include "launch/program/lengths.h"
#include "launch/program/task.h"
#include "launch/train/inputs.h"
#include "launch/train/read_logits.h"

namespace recollect {

namespace {

// The micro-batches of each data rank in one evaluation.
int64_t micro_batches(const Config& config, const Mesh& mesh, int64_t samples) {
  const int64_t all = (samples - 1) / (config.training.micro_batch_size * mesh.data_size()) + 1;
  return config.evaluation.batches > 0 ? std::min(config.evaluation.batches, all) : all;
}

EvaluationSource source_of(const Config& config, const OpenedData& data) {
  const Config::Evaluation& e = config.evaluation;
  return {.labels = data.labels,
          .questions = data.questions.get(),
          .answers = {.most_spans = e.n_best,
                      .most_tokens = e.max_answer_length,
                      .absent_from = static_cast<float>(e.null_threshold)}};
}

// The metrics of the configuration, or else GLUE's for this format, or else those of the task.
std::vector<MetricKind> metrics_of(const Config& config, const OpenedData& data) {
  std::vector<std::string> words = config.evaluation.metrics;
  if (words.empty() && find_glue_task(name_of(config.evaluation.format))) words = data.metrics;
  return choose_metrics(task_settings(config), source_of(config, data).known(), words);
}

// The collector for metrics of logits. Perplexity needs only the loss.
std::unique_ptr<MetricCollector> collector_of(const Config& config, const Mesh& mesh,
                                              const std::vector<MetricKind>& metrics, const OpenedData& data,
                                              int64_t micro_batches) {
  if (std::all_of(metrics.begin(), metrics.end(),
                  [](MetricKind metric) { return metric == MetricKind::kPerplexity; }))
    return nullptr;
  const int64_t read = micro_batches * config.training.micro_batch_size * mesh.data_size();
  return make_metric_collector(task_settings(config), source_of(config, data),
                               std::min(data.dataset->size(), read));
}

}  // namespace

bool evaluation_due(const Config& config, const TrainedSoFar& now) {
  const Config::Evaluation& e = config.evaluation;
  return e.runs() &&
         (now.step == config.training.max_steps || is_occasion(e.every_steps, e.every_epochs, now));
}

Evaluation::Evaluation(const Config& config, const Mesh& mesh, OpenedData data, const Collator& collator)
    : mesh_(mesh),
      data_(std::move(data)),
      rows_(collator.rows()),
      micro_batches_(micro_batches(config, mesh, data_.dataset->size())),
      metrics_(metrics_of(config, data_)),
      collector_(collector_of(config, mesh, metrics_, data_, micro_batches_)),
      loader_(*data_.dataset, collator, SampleOrder(data_.dataset->size(), 0, false),
              {.micro_batch_size = config.training.micro_batch_size,
               .data_rank = mesh.data_rank(),
               .data_size = mesh.data_size(),
               .pad_to_multiple_of = length_multiple(config),
               .cycle = micro_batches_}) {}

void Evaluation::check_reports(std::string_view name) const {
  if (name == "loss") return;
  std::vector<std::string_view> there{"loss"};
  for (const ComparedMetric& metric : kComparedMetrics)
    if (std::any_of(metrics_.begin(), metrics_.end(),
                    [&](MetricKind kind) { return reports(kind, metric.name); }))
      there.push_back(metric.name);
  if (std::find(there.begin(), there.end(), name) != there.end()) return;
  throw Error(ExitCode::kConfiguration,
              fmt::format("evaluation.metric_for_best_model: no evaluation of this run reports {}", name),
              fmt::format("these say {}", fmt::join(there, ", ")));
}

EvaluationResult Evaluation::run(BatchPrograms& programs, int64_t steps_done) {
  const auto start = std::chrono::steady_clock::now();
  TargetWeights weights;
  weights.fill(1);  // the loss is then the sum over all targets
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
    throw SharedError(
        ExitCode::kNumerics, fmt::format("evaluation after step {}: loss {}", steps_done, result.loss),
        "the weights, or what they make of evaluation.path, are not finite", mesh_.world().rank() != 0);
  result.metrics = metrics(result.loss);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

void Evaluation::collect(const ReadyProgram& ready, const MicroBatch& micro) {
  const ValueId logits = ready.training.model.logits;
  read_logits(*ready.executor, logits, bytes_, logits_);
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
