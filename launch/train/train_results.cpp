#include "launch/train/train_results.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "launch/program/resident_memory.h"

namespace recollect {

void TrainResults::add(const StepResult& result, int64_t samples_of_step) {
  ++steps;
  samples += samples_of_step;
  tokens += result.tokens;
  loss_sum += result.loss;
}

void add_ranks(const Session& session, TrainResults& results) {
  const std::optional<MemorySoFar> memory = session.programs().memory_so_far();
  int64_t peaks[] = {memory ? static_cast<int64_t>(memory->measured.peak()) : 0,
                     static_cast<int64_t>(peak_resident_bytes())};
  session.mesh().world().all_reduce({peaks, {2}, DType::kI64}, ReduceOp::kMax);
  results.device_memory_peak = static_cast<uint64_t>(peaks[0]);
  results.resident_memory_peak = static_cast<uint64_t>(peaks[1]);
  results.slow = gather_slow_ranks(session.own_seconds(), session.mesh().world());
}

std::string results_text(const TrainResults& r) {
  const double seconds = std::max(r.seconds, 1e-9), steps = static_cast<double>(r.steps);
  const auto line = [](std::string_view name, const std::string& value) {
    return fmt::format("{:<26}{:>12}\n", name, value);
  };
  const auto mib = [](uint64_t bytes) {
    return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / (1 << 20));
  };
  std::string evaluated;
  if (r.evaluated) {
    evaluated = line("eval_loss", fmt::format("{:.4f}", r.evaluated->loss));
    for (const MetricValue& metric : r.evaluated->metrics)
      evaluated += line(metric.name, fmt::format("{:.4f}", metric.value));
  }
  return line("train_loss", fmt::format("{:.4f}", r.loss_sum / steps)) +
         line("train_runtime", fmt::format("{:.2f} s", r.seconds)) +
         line("train_samples_per_second", fmt::format("{:.3f}", static_cast<double>(r.samples) / seconds)) +
         line("train_steps_per_second", fmt::format("{:.3f}", steps / seconds)) +
         line("device_memory_peak", mib(r.device_memory_peak)) +
         (r.resident_memory_peak > 0 ? line("resident_memory_peak", mib(r.resident_memory_peak)) : "") +
         (r.snapshots ? line("snapshots_saved", fmt::format("{}", r.snapshots->saved)) +
                            line("snapshots_copy", fmt::format("{:.3f} s", r.snapshots->copied_seconds)) +
                            line("snapshots_runtime", fmt::format("{:.2f} s", r.snapshots->seconds))
                      : "") +
         evaluated + slow_ranks_text(r.slow);
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
                              {"device_memory_peak", r.device_memory_peak}};
  if (r.resident_memory_peak > 0) json["resident_memory_peak"] = r.resident_memory_peak;
  if (r.snapshots)
    json["snapshots"] = {{"saved", r.snapshots->saved},
                         {"failed", r.snapshots->failed},
                         {"copy_seconds", r.snapshots->copied_seconds},
                         {"seconds", r.snapshots->seconds},
                         {"bytes", r.snapshots->bytes}};
  if (r.evaluated) {
    json["eval_loss"] = r.evaluated->loss;
    for (const MetricValue& metric : r.evaluated->metrics)  // JSON has no word for what is not defined
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
