#include "parallel/parameter_gathers.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "engine/graph/graph_edit.h"
#include "engine/graph/op_builder.h"
#include "parallel/data_parts.h"

namespace recollect {

namespace {

// Uses with no more visits of other layers between them are of one gather: recomputed ops may stand a layer ahead.
constexpr int64_t kSameStay = 2;

// While a parameter is there whole.
struct Stay {
  const Parameter* parameter;
  int64_t first_visit = 0, last_visit = 0;
  std::vector<OpId> users = {};
};

class Gathering {
 public:
  Gathering(Graph& graph, const OpRegistry& registry, const std::vector<Parameter>& parameters,
            const ParameterGathers& how)
      : graph_(graph),
        registry_(registry),
        how_(how),
        edit_(graph),
        of_whole_(graph.values().size(), nullptr) {
    for (const Parameter& p : parameters)
      if (p.whole != kNone) of_whole_[static_cast<std::size_t>(p.whole)] = &p;
    for (OpId id : graph.op_ids())
      if (graph.op(id).phase == Phase::kForward) forward_end_ = id + 1;
  }

  GatheredParameters run() {
    std::map<int64_t, std::vector<const Stay*>> by_visit;
    const std::vector<Stay> stays = find_stays();
    for (const Stay& stay : stays) by_visit[stay.first_visit].push_back(&stay);
    for (const auto& [visit, together] : by_visit) gather(visit, together);
    edit_.commit();
    return done_;
  }

 private:
  // In the order in which they begin. A visit is a run of ops of one layer, of those that use parameters.
  std::vector<Stay> find_stays() {
    std::vector<Stay> stays;
    std::map<const Parameter*, std::size_t> latest;
    int layer = std::numeric_limits<int>::min();
    for (OpId id : graph_.op_ids())
      for (ValueId v : graph_.op(id).inputs) {
        const Parameter* p = v == kNone ? nullptr : of_whole_[static_cast<std::size_t>(v)];
        if (!p) continue;
        if (std::exchange(layer, graph_.op(id).layer) != graph_.op(id).layer) visits_.push_back(id);
        const auto visit = static_cast<int64_t>(visits_.size()) - 1;
        const auto found = latest.find(p);
        if (found == latest.end() || visit - stays[found->second].last_visit > kSameStay) {
          latest[p] = stays.size();
          stays.push_back({p, visit});
        }
        Stay& stay = stays[latest[p]];
        stay.last_visit = visit;
        stay.users.push_back(id);
      }
    return stays;
  }

  // The value that ops of this stay read: for the first one that which the model's ops have.
  ValueId whole_of(const Stay& stay) {
    const Parameter& p = *stay.parameter;
    const int64_t number = stays_[&p]++;
    if (number == 0) return p.whole;
    Value again = graph_.value(p.whole);
    again.name += "/again" + std::to_string(number);
    again.producer = kNone;
    const ValueId value = graph_.add_value(std::move(again));
    graph_.add_group({.name = graph_.value(value).name,
                      .members = {value},
                      .rooms = {room_for_parts(graph_.value(value), how_.data_size)}});
    for (OpId id : stay.users) edit_.replace_input(id, p.whole, value);
    return value;
  }

  void gather(int64_t visit, const std::vector<const Stay*>& together) {
    const OpId first = visits_[static_cast<std::size_t>(visit)];
    const bool forward = first < forward_end_;
    OpId place = visits_[static_cast<std::size_t>(std::max<int64_t>(0, visit - how_.ahead))];
    if (!forward) place = std::max(place, forward_end_);
    std::vector<ValueId> parts, wholes;
    for (const Stay* stay : together) {
      parts.push_back(stay->parameter->value);
      wholes.push_back(whole_of(*stay));
      done_.bytes += graph_.value(parts.back()).bytes() * static_cast<uint64_t>(how_.data_size - 1);
    }
    const OpBuilder ops(graph_, registry_,
                        {.layer = graph_.op(first).layer,
                         .phase = forward ? Phase::kForward : Phase::kBackward,
                         .stream = StreamId::kCommunication});
    Op op = ops.make("gather/" + std::to_string(done_.gathers++), "gather_parts",
                     {{"axis", std::string(kDataAxis)}, {"size", int64_t{how_.data_size}}}, std::move(parts),
                     std::move(wholes));
    if (const ValueId before = made_before(place); before != kNone) op.after.push_back(before);
    edit_.insert_before(place, std::move(op));
  }

  // By which one knows that the compute stream has come to that op.
  ValueId made_before(OpId place) const {
    for (OpId id = place - 1; id >= 0; --id)
      if (graph_.op(id).stream == StreamId::kCompute)
        for (ValueId v : graph_.op(id).outputs)
          if (v != kNone && !graph_.value(v).accumulator) return v;
    return kNone;
  }

  Graph& graph_;
  const OpRegistry& registry_;
  const ParameterGathers& how_;
  GraphEdit edit_;
  std::vector<const Parameter*> of_whole_;  // by value that the model's ops read
  OpId forward_end_ = 0;
  std::vector<OpId> visits_;  // the first op of each
  std::map<const Parameter*, int64_t> stays_;
  GatheredParameters done_;
};

}  // namespace

GatheredParameters gather_parameters(Graph& graph, const OpRegistry& registry,
                                     const std::vector<Parameter>& parameters, const ParameterGathers& how) {
  return Gathering(graph, registry, parameters, how).run();
}

}  // namespace recollect
