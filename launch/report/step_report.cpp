#include "launch/report/step_report.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "checkpointing/device_model.h"
#include "engine/core/duration.h"
#include "engine/io/json.h"

namespace recollect {

// The thread of the compute stream also runs the collectives on host memory.
double StepReport::waiting_for_peers() const {
  double sum = 0;
  for (const CollectiveTimes& c : collectives)
    if (c.stream == name_of(StreamId::kCompute) || c.stream == "host") sum += c.waiting;
  return sum;
}

double StepReport::waiting_on_any_stream() const {
  double sum = 0;
  for (const CollectiveTimes& c : collectives) sum += c.waiting;
  return sum;
}

namespace {

// The rank that this rank waited for longest, and how long; -1 if there was none.
std::pair<int, double> slowest_peer(const CollectiveTimes& times) {
  std::pair<int, double> slowest{-1, 0.0};
  for (const auto& entry : times.for_ranks)
    if (entry.second > slowest.second) slowest = entry;
  return slowest;
}

// One line for each axis and stream, and the sum that makes up a step.
std::string collectives_text(const StepReport& r) {
  if (r.collectives.empty()) return {};
  std::string text = "collectives a step (mean):\n";
  for (const CollectiveTimes& c : r.collectives) {
    text += fmt::format("  {} ranks, {}: ", c.axis, c.stream);
    if (!c.measured) {
      text += "not measured on this device\n";
      continue;
    }
    text +=
        fmt::format("transfer {}, waiting for peers {}", duration_text(c.transfer), duration_text(c.waiting));
    if (const auto [rank, seconds] = slowest_peer(c); rank >= 0)
      text += fmt::format(", of it {} for rank {}", duration_text(seconds), rank);
    text += '\n';
  }
  const bool known = std::all_of(r.collectives.begin(), r.collectives.end(),
                                 [](const CollectiveTimes& c) { return c.measured; });
  return text +
         fmt::format(
             "a step of {} (mean) = {} {} + {} waiting for peers + {} exposed waits for other streams\n",
             duration_text(r.mean), duration_text(r.computing()),
             known ? "at work" : "at work or in collectives", duration_text(r.waiting_for_peers()),
             duration_text(r.measured_exposed.total()));
}

}  // namespace

std::string step_text(const StepReport& r) {
  if (r.steps == 0) return {};
  const ExposedWaits& exposed = r.measured_exposed;
  const bool told = tells_times(r.device);
  std::string text = fmt::format(
      "step: {}measured {} (median)\nexposed waits a step: {}measured {} (mean)\n",
      told ? fmt::format("predicted {} by {}, ", duration_text(r.predicted), rates_of(r.device)) : "",
      duration_text(r.measured),
      told ? fmt::format("predicted {}, ", duration_text(r.predicted_exposed.total())) : "",
      duration_text(exposed.total()));
  for (int s = 0; s < kStreamCount; ++s)
    if (exposed.by_stream[s] > 0)
      text += fmt::format("  {} for {}\n", duration_text(exposed.by_stream[s]),
                          name_of(static_cast<StreamId>(s)));
  if (exposed.joined > 0)
    text += fmt::format("  {} for other streams to finish\n", duration_text(exposed.joined));
  return text + collectives_text(r);
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

namespace {

nlohmann::ordered_json collectives_json(const std::vector<CollectiveTimes>& collectives) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const CollectiveTimes& c : collectives) {
    list.push_back({{"axis", c.axis}, {"stream", c.stream}, {"measured", c.measured}});
    if (!c.measured) continue;
    nlohmann::ordered_json& line = list.back();
    line["transfer"] = c.transfer;
    line["waiting"] = c.waiting;
    line["for"] = nlohmann::ordered_json::array();
    for (const auto& [rank, seconds] : c.for_ranks)
      line["for"].push_back({{"rank", rank}, {"seconds", seconds}});
  }
  return list;
}

std::vector<CollectiveTimes> read_collectives(const JsonPlace& json) {
  constexpr int64_t kMostRanks = 1 << 20;
  std::vector<CollectiveTimes> collectives;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const JsonPlace line = json.at(i);
    CollectiveTimes c{.axis = line.at("axis").text(), .stream = line.at("stream").text()};
    c.measured = line.find("transfer").has_value();
    if (c.measured) {
      c.transfer = line.at("transfer").amount();
      c.waiting = line.at("waiting").amount();
      const JsonPlace of = line.at("for");
      for (std::size_t r = 0; r < of.size(); ++r)
        c.for_ranks.emplace_back(static_cast<int>(of.at(r).at("rank").integer(0, kMostRanks)),
                                 of.at(r).at("seconds").amount());
    }
    collectives.push_back(std::move(c));
  }
  return collectives;
}

}  // namespace

nlohmann::ordered_json step_json(const StepReport& r) {
  nlohmann::ordered_json json{{"unit", "seconds"}, {"steps", r.steps}, {"device_model", r.device}};
  json["predicted"] = times_json(r.predicted, r.predicted_exposed);
  if (r.steps == 0) return json;
  for (int s = 1; s < kStreamCount; ++s)
    if (r.taken[s] > 0)
      json["taken_from_compute"][std::string(name_of(static_cast<StreamId>(s)))] = r.taken[s];
  nlohmann::ordered_json& measured = json["measured"] = times_json(r.measured, r.measured_exposed);
  measured["mean"] = r.mean;
  measured["waiting_for_peers"] = r.waiting_for_peers();
  measured["collectives"] = collectives_json(r.collectives);
  return json;
}

StepReport read_step(const JsonPlace& json) {
  const auto read_times = [](const JsonPlace& place, double& step, ExposedWaits& exposed) {
    step = place.at("step").amount();
    const JsonPlace waits = place.at("exposed_for");
    for (int s = 1; s < kStreamCount; ++s) {
      const auto stream = static_cast<StreamId>(s);
      const std::string name(name_of(stream));
      if (stream != StreamId::kHost || waits.find(name))  // missing in reports of older versions
        exposed.by_stream[s] = waits.at(name).amount();
    }
    exposed.joined = waits.at("others_to_finish").amount();
  };
  StepReport report{.device = json.at("device_model").text(), .steps = json.at("steps").integer()};
  read_times(json.at("predicted"), report.predicted, report.predicted_exposed);
  if (report.steps == 0) return report;
  const JsonPlace measured = json.at("measured");
  read_times(measured, report.measured, report.measured_exposed);
  if (const auto mean = measured.find("mean")) {  // missing in reports of older versions
    report.mean = mean->amount();
    report.collectives = read_collectives(measured.at("collectives"));
  }
  if (const auto taken = json.find("taken_from_compute"))
    for (int s = 1; s < kStreamCount; ++s)
      if (const auto of_stream = taken->find(std::string(name_of(static_cast<StreamId>(s)))))
        report.taken[s] = of_stream->amount();
  return report;
}

}  // namespace recollect
