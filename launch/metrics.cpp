#include "launch/metrics.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "launch/standard_output.h"

namespace recollect {

namespace {

std::string json_value(const Metric& metric) {
  if (metric.digits == Metric::kYesOrNo) return metric.value != 0 ? "true" : "false";
  if (!std::isfinite(metric.value)) return "null";  // JSON has no infinity
  return metric.digits > 0 ? fmt::format("{:.{}g}", metric.value, metric.digits)
                           : fmt::format("{:.0f}", metric.value);
}

}  // namespace

MetricsLog::MetricsLog(const Config& config) {
  const std::vector<std::string>& forms = config.logging.report_to;
  const auto wanted = [&](const char* form) {
    return std::find(forms.begin(), forms.end(), form) != forms.end();
  };
  if (wanted("jsonl")) json_ = std::make_unique<GrowingFile>(config.output_dir + "/metrics.jsonl");
  const std::string& folder = config.logging.tensorboard_dir;
  if (wanted("tensorboard"))
    events_ = std::make_unique<EventFile>(folder.empty() ? config.output_dir + "/tensorboard" : folder);
}

void MetricsLog::write(int64_t step, std::span<const Metric> metrics) {
  if (json_) {
    std::string line = fmt::format("{{\"step\": {}", step);
    for (const Metric& metric : metrics) line += fmt::format(", \"{}\": {}", metric.key, json_value(metric));
    line += "}\n";
    if (!json_->append(line)) complain("metrics.jsonl");
  }
  if (events_) {
    std::vector<Scalar> scalars;
    for (const Metric& metric : metrics) scalars.push_back({metric.key, metric.value});
    if (!events_->write(step, scalars)) complain(events_->path());
  }
}

void MetricsLog::complain(const std::string& path) {
  if (!complained_) warn("{} cannot be written: {}", path, system_message(errno));
  complained_ = true;
}

}  // namespace recollect
