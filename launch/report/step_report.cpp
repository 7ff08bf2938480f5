#include "launch/report/step_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "checkpointing/simulator.h"

namespace recollect {

double StepTimes::median() const {
  std::array<double, std::tuple_size_v<decltype(seconds_)>> sorted = seconds_;
  const auto count =
      static_cast<std::ptrdiff_t>(std::min<int64_t>(steps_, static_cast<int64_t>(sorted.size())));
  if (count == 0) return 0;
  std::nth_element(sorted.begin(), sorted.begin() + count / 2, sorted.begin() + count);
  const double upper = sorted[static_cast<std::size_t>(count / 2)];
  if (count % 2) return upper;
  return (*std::max_element(sorted.begin(), sorted.begin() + count / 2) + upper) / 2;
}

StepReport compare_steps(const Config& config, const Session& session, const StepTimes& times) {
  const Executor& executor = session.executor();
  const DeviceModel& device = session.device();
  const Simulation foretold = simulate(executor.program().graph, executor.program().schedule, device,
                                       std::max<int64_t>(1, config.training.gradient_accumulation_steps));
  StepReport report{.device = device.name,
                    .foretold = foretold.step_seconds,
                    .measured = times.median(),
                    .foretold_exposed = foretold.total_exposed_seconds(),
                    .steps = times.steps()};
  if (report.steps == 0) return report;
  const auto steps = static_cast<double>(report.steps);
  for (int s = 0; s < kStreamCount; ++s)
    report.exposed[s] = executor.waits().exposed(static_cast<StreamId>(s)) / steps;
  report.joined = executor.waits().join() / steps;
  report.measured_exposed = executor.waits().total_exposed() / steps;
  return report;
}

std::string step_text(const StepReport& r) {
  if (r.steps == 0) return {};
  std::string text = fmt::format(
      "step: foretold {:.3f} ms on {}, measured {:.3f} ms (median)\n"
      "exposed waits a step: foretold {:.3f} ms, measured {:.3f} ms (mean)\n",
      1e3 * r.foretold, r.device, 1e3 * r.measured, 1e3 * r.foretold_exposed, 1e3 * r.measured_exposed);
  for (int s = 0; s < kStreamCount; ++s)
    if (r.exposed[s] > 0)
      text += fmt::format("  {:.3f} ms for {}\n", 1e3 * r.exposed[s], name_of(static_cast<StreamId>(s)));
  if (r.joined > 0) text += fmt::format("  {:.3f} ms for other streams to finish\n", 1e3 * r.joined);
  return text;
}

nlohmann::ordered_json step_json(const StepReport& r) {
  nlohmann::ordered_json json{{"unit", "seconds"}, {"steps", r.steps}};
  json["foretold"] = {{"device_model", r.device}, {"step", r.foretold}, {"exposed", r.foretold_exposed}};
  json["measured"] = {{"step", r.measured}, {"exposed", r.measured_exposed}};
  for (int s = 1; s < kStreamCount; ++s)
    json["measured"]["exposed_for"][std::string(name_of(static_cast<StreamId>(s)))] = r.exposed[s];
  json["measured"]["exposed_for"]["others_to_finish"] = r.joined;
  return json;
}

}  // namespace recollect
