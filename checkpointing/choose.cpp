#include "checkpointing/choose.h"

#include "checkpointing/simulator.h"

namespace recollect {

namespace {

struct Trial {
  ResidencyReport report;
  double seconds = 0, waited = 0;  // of forward and backward; of the compute stream
};

Trial simulate_with(const Graph& graph, const OpRegistry& registry, const SavedActivations& saved,
                    const Plan& plan, const ResidencySettings& settings, const DeviceModel& device) {
  Graph moved = graph;
  Trial trial{.report = place_saved_activations(moved, registry, saved, plan, settings)};
  if (trial.report.returned.empty()) return trial;
  const Simulation simulation = simulate(moved, make_schedule(moved), device, 1);
  trial.seconds = simulation.step_seconds;
  trial.waited = simulation.total_exposed_seconds();
  return trial;
}

// Nothing that moved at first has come to a standstill.
bool moves_as_much(const ResidencyReport& now, const ResidencyReport& first) {
  return (now.partitioned_values > 0) == (first.partitioned_values > 0) &&
         (now.host_values > 0) == (first.host_values > 0) &&
         (now.disk_values > 0) == (first.disk_values > 0) &&
         (now.packed_values > 0) == (first.packed_values > 0);
}

}  // namespace

ResidencySettings least_residency(ResidencySettings settings) {
  if (settings.keep_last == kOpen) settings.keep_last = 1;
  if (settings.prefetch == kOpen) settings.prefetch = 1;
  return settings;
}

ResidencySettings choose_residency(const Graph& graph, const OpRegistry& registry,
                                   const SavedActivations& saved, const Plan& plan,
                                   const ResidencySettings& settings, const DeviceModel& device) {
  ResidencySettings chosen = least_residency(settings);
  if (settings.keep_last != kOpen && settings.prefetch != kOpen) return chosen;
  const auto try_out = [&](const ResidencySettings& moves) {
    return simulate_with(graph, registry, saved, plan, moves, device);
  };
  const Trial first = try_out(chosen);
  if (first.report.returned.empty() || first.waited <= kLeastGain * first.seconds) return chosen;
  Trial best = first;
  const auto one_more = [&](int64_t ResidencySettings::*layers) {
    if (settings.*layers != kOpen || chosen.*layers == kMostLayers) return false;
    // Which values are rounded must not depend on what is fast.
    if (settings.storage != StorageDType::kSame && layers == &ResidencySettings::keep_last) return false;
    ResidencySettings more = chosen;
    ++(more.*layers);
    const Trial trial = try_out(more);
    const bool worth_it =
        best.waited - trial.waited > kLeastGain * best.seconds && trial.seconds < best.seconds;
    if (!worth_it || !moves_as_much(trial.report, first.report)) return false;
    chosen = more;
    best = trial;
    return true;
  };
  while (one_more(&ResidencySettings::prefetch) || one_more(&ResidencySettings::keep_last)) {
  }
  return chosen;
}

}  // namespace recollect
