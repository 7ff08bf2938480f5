#include "launch/report/step_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "launch/world.h"

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

void add_measurement(const Config& config, const Session& session, const StepTimes& times,
                     StepReport& report) {
  report.steps = times.steps();
  report.measured = times.median();
  if (report.steps == 0) return;
  const Executor& executor = session.executor();
  const auto steps = static_cast<double>(report.steps);
  for (int s = 0; s < kStreamCount; ++s)
    report.measured_exposed.by_stream[s] = executor.waits().exposed(static_cast<StreamId>(s)) / steps;
  report.measured_exposed.joined = executor.waits().join() / steps;
  if (has_spare_cores(config, session.mesh().world().size())) return;
  for (int s = 0; s < kStreamCount; ++s)
    report.taken[s] = std::max(0.0, executor.processor_seconds(static_cast<StreamId>(s)) / steps -
                                        report.measured_exposed.by_stream[s]);
}

std::string step_text(const StepReport& r) {
  if (r.steps == 0) return {};
  const ExposedWaits& exposed = r.measured_exposed;
  std::string text = fmt::format(
      "step: foretold {:.3f} ms on {}, measured {:.3f} ms (median)\n"
      "exposed waits a step: foretold {:.3f} ms, measured {:.3f} ms (mean)\n",
      1e3 * r.foretold, r.device, 1e3 * r.measured, 1e3 * r.foretold_exposed.total(), 1e3 * exposed.total());
  for (int s = 0; s < kStreamCount; ++s)
    if (exposed.by_stream[s] > 0)
      text +=
          fmt::format("  {:.3f} ms for {}\n", 1e3 * exposed.by_stream[s], name_of(static_cast<StreamId>(s)));
  if (exposed.joined > 0)
    text += fmt::format("  {:.3f} ms for other streams to finish\n", 1e3 * exposed.joined);
  return text;
}

namespace {

nlohmann::ordered_json times_json(double step, const ExposedWaits& exposed) {
  nlohmann::ordered_json json{{"step", step}, {"exposed", exposed.total()}};
  for (int s = 1; s < kStreamCount; ++s)
    json["exposed_for"][std::string(name_of(static_cast<StreamId>(s)))] = exposed.by_stream[s];
  json["exposed_for"]["others_to_finish"] = exposed.joined;
  return json;
}

}  // namespace

nlohmann::ordered_json step_json(const StepReport& r) {
  nlohmann::ordered_json json{{"unit", "seconds"}, {"steps", r.steps}, {"device_model", r.device}};
  json["foretold"] = times_json(r.foretold, r.foretold_exposed);
  if (r.steps > 0) json["measured"] = times_json(r.measured, r.measured_exposed);
  for (int s = 1; s < kStreamCount; ++s)
    if (r.taken[s] > 0)
      json["taken_from_compute"][std::string(name_of(static_cast<StreamId>(s)))] = r.taken[s];
  return json;
}

StepReport read_step(const JsonPlace& json) {
  const auto read_times = [](const JsonPlace& place, double& step, ExposedWaits& exposed) {
    step = place.at("step").amount();
    const JsonPlace waits = place.at("exposed_for");
    for (int s = 1; s < kStreamCount; ++s)
      exposed.by_stream[s] = waits.at(std::string(name_of(static_cast<StreamId>(s)))).amount();
    exposed.joined = waits.at("others_to_finish").amount();
  };
  StepReport report{.device = json.at("device_model").text(), .steps = json.at("steps").integer()};
  read_times(json.at("foretold"), report.foretold, report.foretold_exposed);
  if (report.steps > 0) read_times(json.at("measured"), report.measured, report.measured_exposed);
  if (const auto taken = json.find("taken_from_compute"))
    for (int s = 1; s < kStreamCount; ++s)
      if (const auto of_stream = taken->find(std::string(name_of(static_cast<StreamId>(s)))))
        report.taken[s] = of_stream->amount();
  return report;
}

}  // namespace recollect
