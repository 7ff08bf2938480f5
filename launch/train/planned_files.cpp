#include "launch/train/planned_files.h"

#include <algorithm>
#include <filesystem>

#include "launch/config/check_reports.h"
#include "launch/train/save_model.h"
#include "parallel/merge_adapters.h"
#include "parallel/quantised_base.h"

namespace recollect {

namespace {

// Upper bounds, each at least 1.5 times the largest size observed.
constexpr uint64_t kMetricsLine = 600;     // for a step or an evaluation
constexpr uint64_t kEventRecord = 1200;    // the same for TensorBoard
constexpr uint64_t kMlflowLine = 1200;     // the same for MLflow, in all of its files
constexpr uint64_t kMlflowRun = 1 << 20;   // a block of the disk for each parameter and tag
constexpr uint64_t kSmallFile = 16 << 10;  // config.json, train_results.json, a lock
constexpr uint64_t kReport = 256 << 10;    // of a rank, without its ops
constexpr uint64_t kPage = 1 << 20;        // without its ranks
constexpr uint64_t kReportOp = 512;        // of an op in a rank's JSON, and in its trace
constexpr uint64_t kTensorHeader = 512;    // of a tensor in the model's header

uint64_t model_bytes(const Config& config, const Session& session, const Companions& companions) {
  uint64_t bytes = kSmallFile + companions.bytes();
  const bool adapters = config.lora.rank > 0;
  for (const Parameter& p : session.training_program().model.parameters)
    if (!adapters || p.saved_with_adapters)
      bytes += kTensorHeader +
               static_cast<uint64_t>(p.rows * p.columns) * size_of(session.executor().tensor(p.master).dtype);
  return bytes;
}

uint64_t merged_model_bytes(const Session& session, const Companions& companions) {
  return kSmallFile + companions.bytes() + merged_bytes(session.training_program().model, sizeof(double));
}

uint64_t most_evaluations(const Config& config, int64_t samples) {
  const Config::Evaluation& e = config.evaluation;
  if (!e.runs()) return 0;
  const auto steps = static_cast<double>(config.training.max_steps);
  const double epochs = steps * static_cast<double>(config.training.global_batch_size) /
                        static_cast<double>(std::max<int64_t>(1, samples));
  const double times =
      e.every_steps > 0 ? steps / static_cast<double>(e.every_steps) : epochs / e.every_epochs;
  return static_cast<uint64_t>(std::min(steps, times)) + 1;
}

}  // namespace

std::vector<PlannedFile> planned_files(const Config& config, const Session& session, std::size_t configured) {
  const auto steps = static_cast<uint64_t>(config.training.max_steps);
  const uint64_t lines = steps + most_evaluations(config, session.samples());
  const auto wants = [&](const char* form) {
    const std::vector<std::string>& forms = config.logging.report_to;
    return std::find(forms.begin(), forms.end(), form) != forms.end();
  };
  std::vector<PlannedFile> files{{"configuration", configured + 2 * kSmallFile}};
  if (config.checkpoint.save_model || config.lora.merge || config.checkpoint.save_best_model) {
    const Companions companions(config);
    if (config.checkpoint.save_model) files.push_back({"model", model_bytes(config, session, companions)});
    if (config.lora.save_base)
      files.push_back(
          {"base", kSmallFile + companions.bytes() + quantised_base_bytes(session.training_program().model)});
    if (config.lora.merge) files.push_back({"merged model", merged_model_bytes(session, companions)});
    if (config.checkpoint.save_best_model)  // and the one that it replaces
      files.push_back({"best model", 2 * model_bytes(config, session, companions)});
  }
  if (wants("jsonl")) files.push_back({"metrics", lines * kMetricsLine});
  if (wants("tensorboard") && config.logging.tensorboard_dir.empty())
    files.push_back({"TensorBoard events", kSmallFile + lines * kEventRecord});
  if (wants("mlflow") && config.logging.mlflow_dir.empty())
    files.push_back({"MLflow run", kMlflowRun + lines * kMlflowLine});
  const auto ranks = static_cast<uint64_t>(session.mesh().world().size());
  const auto runs = static_cast<uint64_t>(config.training.gradient_accumulation_steps) + 1;
  const uint64_t of_rank = kReport + runs * session.executor().program().graph.ops().size() * kReportOp;
  uint64_t reports = 0;
  for (const ReportFormat format : {ReportFormat::kJson, ReportFormat::kTrace, ReportFormat::kHtml})
    if (reports_in(config, format)) reports += ranks * of_rank + (format == ReportFormat::kHtml ? kPage : 0);
  if (reports > 0) files.push_back({"reports", reports});
  return files;
}

}  // namespace recollect
