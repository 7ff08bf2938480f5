#include "checkpointing/residency.h"

#include <algorithm>
#include <map>

#include "checkpointing/residency_ops.h"

namespace recollect {

namespace {

constexpr int kLayersInFlight = 2;  // forward runs at most so many layers ahead of the copies to the host

class Residency {
 public:
  Residency(Graph& graph, const OpRegistry& registry, const ResidencySettings& settings)
      : graph_(graph),
        registry_(registry),
        settings_(settings),
        ops_(graph.ops()),
        layers_(static_cast<int>(layer_inputs(graph).size())) {
    for (int i = 0; i < size(); ++i) {
      if (ops_[i].phase == Phase::kForward) first_forward_.try_emplace(ops_[i].layer, i);
      if (ops_[i].phase == Phase::kForward) last_forward_ = i;
      if (ops_[i].phase == Phase::kBackward) first_backward_.try_emplace(ops_[i].layer, i);
    }
  }

  void move(ValueId v, const Decision& decision) {
    std::map<int, std::vector<int>> uses;  // layer whose backward it is -> positions
    for (int i = 0; i < size(); ++i)
      if (ops_[i].phase == Phase::kBackward && std::count(ops_[i].inputs.begin(), ops_[i].inputs.end(), v))
        uses[ops_[i].layer].push_back(i);
    if (uses.empty() || needed_at_once(uses, decision)) return;
    const ValueId stored = store(v, decision);
    for (const auto& [layer, positions] : uses) {
      const ValueId again = fetch(v, stored, decision, layer);
      for (int position : positions)
        std::replace(ops_[position].inputs.begin(), ops_[position].inputs.end(), v, again);
    }
  }

  ResidencyReport finish() {
    std::vector<Op> merged;
    for (int i = 0; i < size(); ++i) {
      for (Op& op : before_[i]) merged.push_back(std::move(op));
      merged.push_back(std::move(ops_[i]));
      for (Op& op : behind_[i]) merged.push_back(std::move(op));
    }
    graph_.set_ops(std::move(merged));
    return report_;
  }

 private:
  int size() const { return static_cast<int>(ops_.size()); }

  // `uses` by layer: the first is that of the ops behind the layers, where there are any.
  bool needed_at_once(const std::map<int, std::vector<int>>& uses, const Decision& decision) {
    const bool behind = uses.begin()->first < 0;
    const int64_t from_end = layers_ - uses.rbegin()->first;
    if (!behind && from_end <= std::max<int64_t>(1, settings_.keep_last))
      report_.keep_last_that_matters = std::max(report_.keep_last_that_matters, from_end);
    if (!behind && from_end > settings_.keep_last) return false;
    Staying& staying = behind ? report_.read_behind_layers : report_.read_in_last_layers;
    staying.partition += decision.partition;
    staying.host += decision.host;
    return true;
  }

  // Makes the op and its output without placing it in the program yet.
  Op make(const std::string& name, const char* kind, StreamId stream, Phase phase, Attributes attributes,
          ValueId input) {
    Op op{.def = registry_.find(kind),
          .name = name,
          .attributes = std::move(attributes),
          .inputs = {input},
          .layer = graph_.value(input).layer,
          .phase = phase,
          .stream = stream};
    const OutputSpec spec = op.def->infer(OpView{graph_, op}).at(0);
    op.outputs = {graph_.add_value({.name = name,
                                    .shape = spec.shape,
                                    .dtype = spec.dtype,
                                    .category = spec.category,
                                    .placement = spec.placement,
                                    .space = spec.space,
                                    .pooled = settings_.pooled && spec.space == MemorySpace::kDevice,
                                    .layer = op.layer})};
    return op;
  }

  ValueId store(ValueId v, const Decision& decision) {
    const std::string name = graph_.value(v).name;
    const OpId producer = graph_.value(v).producer;
    ValueId stored = v;
    if (decision.partition) {
      const uint64_t whole = graph_.value(v).bytes();
      Op slice = make("kept/" + name, "checkpoint_slice", StreamId::kCompute, Phase::kForward,
                      {{"size", settings_.tensor_size}}, stored);
      stored = slice.outputs[0];
      ++report_.partitioned_values;
      report_.partition_saved_bytes += whole - graph_.value(stored).bytes();
      behind_[producer].push_back(std::move(slice));
    }
    if (decision.host) {
      Op copy = make("host/" + name, "copy_to_host", StreamId::kDeviceToHost, Phase::kForward, {}, stored);
      stored = copy.outputs[0];
      ++report_.host_values;
      report_.host_saved_bytes += graph_.value(stored).bytes();
      report_.to_host_bytes += graph_.value(stored).bytes();
      behind_[producer].push_back(std::move(copy));
      hold_back(ops_[producer].layer, stored);
    }
    return stored;
  }

  // Forward of the second layer from here waits until the copy is out, which is what frees the value's place.
  void hold_back(int layer, ValueId copied) {
    const auto later = first_forward_.find(layer + kLayersInFlight);
    const int position = later != first_forward_.end() ? later->second : last_forward_;
    ops_[position].after.push_back(copied);
  }

  ValueId fetch(ValueId v, ValueId stored, const Decision& decision, int layer) {
    const std::string name = "fetched/layer" + std::to_string(layer) + "/" + graph_.value(v).name;
    const int ahead = layer + static_cast<int>(settings_.prefetch);
    const auto found = first_backward_.find(ahead);
    const int position =
        found != first_backward_.end() && ahead < layers_ ? found->second : first_backward_.begin()->second;
    const std::vector<ValueId> token = made_before(position);
    std::vector<Op>& before = before_[position];
    if (decision.host) {
      Op copy = make(decision.partition ? name + "/part" : name, "copy_to_device", StreamId::kHostToDevice,
                     Phase::kBackward, {}, stored);
      copy.after = token;
      stored = copy.outputs[0];
      report_.to_device_bytes += graph_.value(stored).bytes();
      before.push_back(std::move(copy));
    }
    if (decision.partition) {
      Op gather = make(name, "checkpoint_gather", StreamId::kGather, Phase::kBackward,
                       gather_attributes(graph_.value(v), settings_.tensor_size), stored);
      gather.after = token;
      stored = gather.outputs[0];
      report_.gathered_bytes += graph_.value(stored).bytes();
      before.push_back(std::move(gather));
    }
    report_.returned.push_back({v, stored});
    report_.prefetch_that_matters = std::max<int64_t>(report_.prefetch_that_matters, layers_ - layer);
    return stored;
  }

  // What the nearest compute op before this position made.
  std::vector<ValueId> made_before(int position) const {
    for (int i = position - 1; i >= 0; --i)
      if (ops_[i].stream == StreamId::kCompute)
        for (ValueId v : ops_[i].outputs)
          if (v != kNone && !graph_.value(v).accumulator) return {v};
    return {};
  }

  Graph& graph_;
  const OpRegistry& registry_;
  const ResidencySettings& settings_;
  std::vector<Op> ops_;
  int layers_;
  std::map<int, int> first_forward_, first_backward_;  // by layer: position
  int last_forward_ = 0;
  std::map<int, std::vector<Op>> before_, behind_;  // ops to insert, by position
  ResidencyReport report_;
};

}  // namespace

ResidencyReport place_kept_values(Graph& graph, const OpRegistry& registry, const Plan& plan,
                                  const ResidencySettings& settings) {
  Residency residency(graph, registry, settings);
  for (ValueId v : saved_values(graph)) {
    const auto decision = plan.values.find(graph.value(v).name);
    if (decision == plan.values.end() || !decision->second.keep) continue;
    graph.value(v).pooled = settings.pooled;
    if (decision->second.partition || decision->second.host) residency.move(v, decision->second);
  }
  return residency.finish();
}

}  // namespace recollect
