#include "parallel/collective_meter.h"

#include <algorithm>

#include "comm/call_times.h"

namespace recollect {

CollectiveMeter::CollectiveMeter(const Mesh& mesh) {
  for (const Mesh::Link& link : mesh.links()) {
    if (link.communicator->size() == 1) continue;
    lines_.push_back({.link = link});
    if (const CallTimes* times = link.communicator->times())
      lines_.back().for_rank.resize(times->ranks().size(), 0.0);
  }
}

void CollectiveMeter::count(double sign) {
  for (Line& line : lines_) {
    const CallTimes* times = line.link.communicator->times();
    if (!times) continue;
    line.transfer += sign * times->transfer();
    line.waiting += sign * times->waiting();
    for (std::size_t r = 0; r < line.for_rank.size(); ++r)
      line.for_rank[r] += sign * times->waiting_by_rank()[r];
  }
}

void CollectiveMeter::begin_step() { count(-1); }
void CollectiveMeter::end_step() { count(1); }

CollectiveMeter::Waiting CollectiveMeter::waiting() const {
  Waiting seconds;
  for (const Line& line : lines_) {
    const bool in_place = line.link.stream == "host" || line.link.stream == name_of(StreamId::kCompute);
    (in_place ? seconds.in_place : seconds.aside) += line.waiting;
  }
  return seconds;
}

std::vector<CollectiveTimes> CollectiveMeter::times() const {
  std::vector<CollectiveTimes> all;
  for (const Line& line : lines_) {
    const CallTimes* times = line.link.communicator->times();
    if (times && line.transfer + line.waiting <= 0) continue;
    // What was added and taken away again leaves a rounding.
    CollectiveTimes made{.axis = std::string(line.link.axis),
                         .stream = std::string(line.link.stream),
                         .measured = times != nullptr,
                         .transfer = std::max(0.0, line.transfer),
                         .waiting = std::max(0.0, line.waiting)};
    for (std::size_t r = 0; r < line.for_rank.size(); ++r)
      if (line.for_rank[r] > 0) made.for_ranks.emplace_back(times->ranks()[r], line.for_rank[r]);
    all.push_back(std::move(made));
  }
  return all;
}

}  // namespace recollect
