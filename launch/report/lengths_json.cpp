// Writes and reads the JSON of lengths_report.h. It is a separate file, so that a reader does not depend on
// programs.
#include "engine/io/json.h"
#include "launch/report/lengths_report.h"

namespace recollect {

nlohmann::ordered_json lengths_json(const std::vector<LengthReport>& lengths) {
  auto list = nlohmann::ordered_json::array();
  for (const LengthReport& r : lengths)
    list.push_back({{"length", r.length},
                    {"micro_batches", r.micro_batches},
                    {"seconds", {{"predicted", r.predicted}, {"measured", r.measured}}},
                    {"transient", {{"predicted", r.predicted_bytes}, {"measured", r.measured_bytes}}}});
  return list;
}

std::vector<LengthReport> read_lengths(const JsonPlace& json) {
  std::vector<LengthReport> lengths;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const JsonPlace r = json.at(i), seconds = r.at("seconds"), transient = r.at("transient");
    lengths.push_back({.length = r.at("length").integer(),
                       .micro_batches = r.at("micro_batches").integer(),
                       .predicted = seconds.at("predicted").amount(),
                       .measured = seconds.at("measured").amount(),
                       .predicted_bytes = transient.at("predicted").bytes(),
                       .measured_bytes = transient.at("measured").bytes()});
  }
  return lengths;
}

}  // namespace recollect
