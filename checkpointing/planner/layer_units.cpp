#include "checkpointing/planner/layer_units.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "checkpointing/planner/ladder.h"
#include "checkpointing/policies.h"

namespace recollect {

bool LayerUnit::is_in(const DraftPlan& plan, std::size_t layer) const {
  return std::all_of(layers[layer].begin(), layers[layer].end(),
                     [&](int place) { return plan.values[place].save; });
}

void LayerUnit::set(std::size_t layer, bool save, DraftPlan& plan) const {
  for (int place : layers[layer]) plan.values[place].save = save;
}

std::vector<LayerUnit> make_units(const Surroundings& of) {
  const std::vector<ValueId>& inputs = of.saved.layer_inputs();
  const std::set<ValueId> of_layers(inputs.begin(), inputs.end());
  const DraftPlan full = make_draft(of.graph, of.saved, {.mode = CheckpointingMode::kFull});
  using Places = std::map<int, std::vector<int>>;          // by layer
  std::map<std::string, Places> all, statistics, without;  // by name
  for (std::size_t i = 0; i < full.values.size(); ++i) {
    const ValueId v = of.saved.values()[i];
    const Value& value = of.graph.value(v);
    if (value.layer >= 0 && full.values[i].save && !of_layers.contains(v)) continue;
    const std::string& name = of.graph.op(value.producer).name;
    const std::string op = value.layer < 0 ? name : behind_layer(name);
    const auto place = static_cast<int>(i);
    const int layer = std::max(0, value.layer);
    all[op][layer].push_back(place);
    (of.saved.is_statistic(v) ? statistics : without)[op][layer].push_back(place);
  }
  const uint64_t input = inputs.size() < 2 ? 0 : aligned(of.graph.value(inputs[1]).bytes());
  std::vector<LayerUnit> units;
  for (const auto* map : {&all, &statistics, &without})
    for (const auto& [name, layers] : *map) {
      if (map != &all && all[name] == layers) continue;
      LayerUnit& unit = units.emplace_back();
      unit.layers.resize(inputs.size());
      for (const auto& [layer, places] : layers) unit.layers.at(layer) = places;
      for (int place : layers.begin()->second)
        unit.bytes += aligned(of.graph.value(of.saved.values()[place]).bytes());
      const bool has_part = map == &all && statistics.contains(name) && without.contains(name);
      const Value& first = of.graph.value(of.saved.values()[layers.begin()->second.front()]);
      unit.is_outside = first.layer < 0;
      unit.is_cut = !has_part && layers.size() > 1 && 2 * unit.bytes >= input && unit.bytes <= 2 * input;
    }
  return units;
}

DraftPlan without_inputs(const Surroundings& of) {
  DraftPlan plan = make_draft(of.graph, of.saved, {.mode = CheckpointingMode::kFull});
  const std::vector<ValueId>& inputs = of.saved.layer_inputs();
  const std::set<ValueId> dropped(inputs.begin() + std::min<std::ptrdiff_t>(1, std::ssize(inputs)),
                                  inputs.end());
  for (std::size_t i = 0; i < plan.values.size(); ++i)
    if (dropped.contains(of.saved.values()[i])) plan.values[i].save = false;
  return plan;
}

}  // namespace recollect
