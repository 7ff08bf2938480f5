#include "launch/train/metrics.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/io/standard_output.h"
#include "launch/config/read.h"

namespace recollect {

namespace {

// A line of metrics.jsonl; it allocates only if it is unusually long.
using Line = fmt::basic_memory_buffer<char, 2048>;

template <typename... Args>
void append(Line& line, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(line), format, std::forward<Args>(args)...);
}

void append_value(Line& line, const Metric& metric) {
  if (metric.digits == Metric::kText) return append(line, "\"{}\"", metric.text);
  if (metric.digits == Metric::kYesOrNo) return append(line, "{}", metric.value != 0);
  if (!std::isfinite(metric.value)) return append(line, "null");  // JSON has no infinity
  if (metric.digits > 0) return append(line, "{:.{}g}", metric.value, metric.digits);
  append(line, "{:.0f}", metric.value);
}

// The lines of steps up to `step`, which a resumed run does not write again. A line that a crash cut off is
// dropped.
std::string lines_until(const std::string& path, int64_t step) {
  std::string kept;
  std::ifstream file(path);
  for (std::string line; step > 0 && std::getline(file, line);) {
    long long of = 0;
    if (std::sscanf(line.c_str(), "{\"step\": %lld,", &of) == 1 && of <= step && line.ends_with('}'))
      kept += line + '\n';
  }
  if (file.bad())
    throw Error(ExitCode::kStorage, fmt::format("{} cannot be read: {}", path, system_message(errno)),
                "the run would go on without what its earlier steps measured: mend it or move it away");
  return kept;
}

}  // namespace

MetricsLog::MetricsLog(const Config& config, int64_t steps_done) : config_(config) {
  open(steps_done);
  if (!config.logging.hook.empty())
    hook_ =
        std::make_unique<MetricsHook>(config.logging.hook, config.output_dir + "/hook.log", steps_done > 0);
}

void MetricsLog::open(int64_t steps_done) {
  const std::vector<std::string>& forms = config_.logging.report_to;
  const auto wanted = [&](const char* form) {
    return std::find(forms.begin(), forms.end(), form) != forms.end();
  };
  if (wanted("jsonl")) {
    const std::string path = config_.output_dir + "/metrics.jsonl";
    json_ = std::make_unique<GrowingFile>(path, lines_until(path, steps_done));
  }
  const std::string& folder = config_.logging.tensorboard_dir;
  if (wanted("tensorboard"))
    events_ = std::make_unique<EventFile>(folder.empty() ? config_.output_dir + "/tensorboard" : folder,
                                          steps_done);
  if (!wanted("mlflow")) return;
  if (mlflow_)
    mlflow_->go_back_to(steps_done);
  else
    mlflow_ = std::make_unique<MlflowRun>(
        config_.logging.mlflow_dir.empty() ? config_.output_dir + "/mlruns" : config_.logging.mlflow_dir,
        config_.output_dir, flatten(config_), steps_done);
}

void MetricsLog::complete() {
  if (mlflow_) mlflow_->complete();
}

void MetricsLog::write(int64_t step, std::span<const Metric> metrics) {
  if (json_ || hook_) {
    Line line;
    append(line, "{{\"step\": {}", step);
    for (const Metric& metric : metrics) {
      append(line, ", \"{}\": ", metric.key);
      append_value(line, metric);
    }
    append(line, "}}\n");
    const std::string_view text(line.data(), line.size());
    if (json_ && !json_->append(text)) complain("metrics.jsonl");
    if (hook_) hook_->send(text);
  }
  if (!events_ && !mlflow_) return;
  scalars_.clear();
  for (const Metric& metric : metrics)
    if (metric.digits != Metric::kText) scalars_.push_back({metric.key, metric.value});
  if (events_ && !events_->write(step, scalars_)) complain(events_->path());
  if (mlflow_ && !mlflow_->write(step, scalars_)) complain(mlflow_->path());
}

void MetricsLog::flush() const {
  if (json_) json_->flush();
  if (events_) events_->flush();
  if (mlflow_) mlflow_->flush();
}

void MetricsLog::complain(const std::string& path) {
  if (!complained_) warn("{} cannot be written: {}", path, system_message(errno));
  complained_ = true;
}

}  // namespace recollect
