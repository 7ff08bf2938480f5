#include "launch/train/train_results.h"

#include <algorithm>

#include <fmt/format.h>

#include "checkpointing/device_model.h"
#include "engine/core/duration.h"
#include "engine/io/json.h"
#include "launch/program/resident_memory.h"
#include "launch/program/units.h"
#include "launch/report/rank_report_json.h"

namespace recollect {

void TrainResults::add(const StepResult& result, int64_t samples_of_step) {
  ++steps;
  samples += samples_of_step;
  tokens += result.tokens;
  loss_sum += result.loss;
  epoch = result.epoch;
}

void add_ranks(const Session& session, TrainResults& results) {
  const std::optional<MemorySoFar> memory = session.programs().memory_so_far();
  int64_t peaks[] = {memory ? static_cast<int64_t>(memory->measured.peak()) : 0,
                     memory ? static_cast<int64_t>(memory->predicted.peak()) : 0,
                     static_cast<int64_t>(peak_resident_bytes()),
                     static_cast<int64_t>(session.programs().needs().arena_bytes())};
  session.mesh().world().all_reduce({peaks, {4}, DType::kI64}, ReduceOp::kMax);
  results.device_memory_peak = static_cast<uint64_t>(peaks[0]);
  results.device_memory_predicted = static_cast<uint64_t>(peaks[1]);
  results.resident_memory_peak = static_cast<uint64_t>(peaks[2]);
  results.device_memory_reserved = static_cast<uint64_t>(peaks[3]);
  results.slow = gather_slow_ranks(session.own_seconds(), session.mesh().world());
  results.step_median = session.measurements().times.median();
}

namespace {

std::string rate_text(double rate) {
  return fmt::format("{:.{}f}", rate, rate < 10 ? 3 : rate < 1000 ? 1 : 0);
}

std::string time_line(const TrainResults& r) {
  std::string text =
      fmt::format("step: {} (median)", duration_text(r.step ? r.step->measured : r.step_median));
  if (!r.step || r.step->steps == 0) return text + "\n";
  if (tells_times(r.step->device))
    text += fmt::format(", predicted {} by {}", duration_text(r.step->predicted), rates_of(r.step->device));
  if (!r.step->collectives.empty())
    text += fmt::format("; {} waiting for peers", duration_text(r.step->waiting_for_peers()));
  return text + fmt::format("; {} exposed waits for other streams\n",
                            duration_text(r.step->measured_exposed.total()));
}

std::string peaks_line(const TrainResults& r) {
  const std::string peak = bytes_text(r.device_memory_peak),
                    predicted = bytes_text(r.device_memory_predicted);
  std::string text = r.device_memory_reserved > r.device_memory_peak
                         ? fmt::format("memory: arena {}, of which {} were in use at the peak, predicted {}",
                                       bytes_text(r.device_memory_reserved), peak, predicted)
                         : fmt::format("memory: arena peak {}, predicted {}", peak, predicted);
  if (r.resident_memory_peak > 0)
    text += fmt::format("; resident peak {} a process", bytes_text(r.resident_memory_peak));
  return text + "\n";
}

std::string evaluation_line(const TrainResults& r) {
  constexpr std::string_view kPrefix = "eval_";
  std::string text = fmt::format("evaluation: loss {:.4f}", r.evaluated->loss);
  for (const MetricValue& metric : r.evaluated->metrics)
    text +=
        fmt::format(", {} {:.4f}", metric.name.substr(metric.name.starts_with(kPrefix) ? kPrefix.size() : 0),
                    metric.value);
  if (!r.best_folder.empty())
    text += fmt::format("; the best model, of step {} with {} {:.4f}, is in {}", r.best.step, r.best.metric,
                        r.best.value, r.best_folder);
  return text + "\n";
}

}  // namespace

std::string results_text(const TrainResults& r) {
  const double seconds = std::max(r.seconds, 1e-9), steps = static_cast<double>(r.steps);
  std::string text =
      fmt::format("trained {} {} in {}{}: loss {:.4f} (mean), {} samples/s, {} steps/s", r.steps,
                  r.steps == 1 ? "step" : "steps", duration_text(r.seconds),
                  r.epoch > 0 ? fmt::format(", to epoch {:.3g}", r.epoch) : "", r.loss_sum / steps,
                  rate_text(static_cast<double>(r.samples) / seconds), rate_text(steps / seconds));
  if (r.snapshots)
    text += fmt::format("; waited {} for {} {}", duration_text(r.snapshots->copied_seconds),
                        r.snapshots->saved, r.snapshots->saved == 1 ? "snapshot" : "snapshots");
  text += "\n";
  text += start_line(r.start, r.steps > 1 ? r.first_step - r.step_median : 0);
  if (r.evaluated) text += evaluation_line(r);
  text += peaks_line(r) + time_line(r);
  text += slow_ranks_text(r.slow);
  return r.report.empty() ? text : text + fmt::format("report: {}\n", r.report);
}

std::string results_json(const TrainResults& r) {
  const double seconds = std::max(r.seconds, 1e-9), steps = static_cast<double>(r.steps);
  nlohmann::ordered_json json{{"train_loss", r.loss_sum / steps},
                              {"train_runtime", r.seconds},
                              {"train_samples", r.samples},
                              {"train_samples_per_second", static_cast<double>(r.samples) / seconds},
                              {"train_steps", r.steps},
                              {"train_steps_per_second", steps / seconds},
                              {"train_tokens_per_second", static_cast<double>(r.tokens) / seconds},
                              {"device_memory_peak", r.device_memory_peak},
                              {"device_memory_predicted", r.device_memory_predicted}};
  json["start_seconds"] = start_json(r.start);
  json["first_step_seconds"] = r.first_step;
  if (r.epoch > 0) json["epoch"] = r.epoch;
  if (r.resident_memory_peak > 0) json["resident_memory_peak"] = r.resident_memory_peak;
  if (r.snapshots)
    json["snapshots"] = {{"saved", r.snapshots->saved},
                         {"failed", r.snapshots->failed},
                         {"copy_seconds", r.snapshots->copied_seconds},
                         {"thread_seconds", r.snapshots->thread_seconds},
                         {"seconds", r.snapshots->seconds},
                         {"bytes", r.snapshots->bytes}};
  if (r.evaluated) {
    json["eval_loss"] = r.evaluated->loss;
    for (const MetricValue& metric : r.evaluated->metrics)  // JSON has no value for undefined numbers
      json[std::string(metric.name)] = metric.value;
  }
  if (r.best.step > 0) {
    json["best_step"] = r.best.step;
    json["best_metric"] = r.best.value;
    json["metric_for_best_model"] = r.best.metric;
    json["stopped_early"] = r.stopped_early;
  }
  for (const SlowRanks::One& one : r.slow.ranks)
    json["slow_ranks"].push_back(
        {{"rank", one.rank}, {"own_step_seconds", one.seconds}, {"median_rank_seconds", r.slow.median}});
  return json.dump(2) + "\n";
}

}  // namespace recollect
