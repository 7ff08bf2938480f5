#include "checkpointing/residency.h"

#include <algorithm>
#include <map>
#include <set>

#include "checkpointing/residency_ops.h"

namespace recollect {

namespace {

// Forward runs at most so many layers ahead of what frees the device, and so many ahead of the disk, where
// host memory is the buffer before it; there, the last layers to leave are still in the buffer when they are
// wanted.
constexpr int kLayersInFlight = 2, kLayersInHost = 3, kLayersFromHost = 2;

class Residency {
 public:
  Residency(Graph& graph, const OpRegistry& registry, const ResidencySettings& settings)
      : graph_(graph),
        registry_(registry),
        settings_(settings),
        ops_(graph.ops()),
        read_at_(graph.values().size()),
        layers_(static_cast<int>(layer_inputs(graph).size())) {
    for (int i = 0; i < size(); ++i) {
      if (ops_[i].phase == Phase::kForward) first_forward_.try_emplace(ops_[i].layer, i);
      if (ops_[i].phase == Phase::kForward) last_forward_ = i;
      if (ops_[i].phase != Phase::kBackward) continue;
      first_backward_.try_emplace(ops_[i].layer, i);
      for (ValueId v : ops_[i].inputs)
        if (v != kNone && (read_at_[v].empty() || read_at_[v].back() != i)) read_at_[v].push_back(i);
    }
  }

  // Returns what waits for backward: the value itself, or what is stored of it.
  ValueId move(ValueId v, const Decision& decision) {
    std::map<int, std::vector<int>> uses;  // layer whose backward it is -> positions
    for (int i : read_at_[v]) uses[ops_[i].layer].push_back(i);
    const bool leaves = decision.partition || decision.host || decision.disk;
    if (uses.empty() || !(leaves || packs(v)) || needed_at_once(uses, decision)) return v;
    Decision buffered = decision;  // for layers whose backward finds it in host memory on its way to the disk
    buffered.disk = decision.disk && !decision.host;
    const auto soon = [&](int layer) { return layer >= layers_ - settings_.keep_last - kLayersFromHost; };
    const bool all_soon =
        std::all_of(uses.begin(), uses.end(), [&](const auto& item) { return soon(item.first); });
    const Stored stored = store(v, all_soon ? buffered : decision);
    for (const auto& [layer, positions] : uses) {
      const ValueId from = soon(layer) && decision.host ? stored.in_host : stored.last;
      const ValueId again = fetch(v, from, soon(layer) ? buffered : decision, layer, positions.front());
      for (int position : positions)
        std::replace(ops_[position].inputs.begin(), ops_[position].inputs.end(), v, again);
    }
    return stored.last;
  }

  void count_layer_input(ValueId waiting) {
    const Value& value = graph_.value(waiting);
    report_.layer_inputs[static_cast<int>(value.space)] += value.bytes();
  }

  ResidencyReport finish() {
    std::vector<Op> merged;
    for (int i = 0; i < size(); ++i) {
      // What is fetched for several layers at once: backward comes to the deepest first.
      std::stable_sort(before_[i].begin(), before_[i].end(),
                       [](const Op& a, const Op& b) { return a.layer > b.layer; });
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
    staying.disk += decision.disk;
    return true;
  }

  // Makes the op and its output without placing it in the program yet.
  Op make(const std::string& name, const char* kind, StreamId stream, Phase phase, Attributes attributes,
          std::vector<ValueId> inputs) {
    Op op{.def = registry_.find(kind),
          .name = name,
          .attributes = std::move(attributes),
          .inputs = std::move(inputs),
          .phase = phase,
          .stream = stream};
    op.layer = graph_.value(op.inputs.front()).layer;
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

  // Puts an op at the end of those to be inserted and goes on with what it made.
  ValueId insert(std::vector<Op>& into, Op op) {
    const ValueId made = op.outputs[0];
    into.push_back(std::move(op));
    return made;
  }

  struct Stored {
    ValueId in_host = kNone;  // on its way
    ValueId last = kNone;
  };

  Stored store(ValueId v, const Decision& decision) {
    const std::string name = graph_.value(v).name;
    const OpId producer = graph_.value(v).producer;
    const int layer = ops_[producer].layer;
    std::vector<Op>& behind = behind_[producer];
    const auto bytes = [this](ValueId value) { return graph_.value(value).bytes(); };
    ValueId stored = v, in_host = kNone;
    if (packs(v)) {
      stored = insert(
          behind, make("packed/" + name, "checkpoint_pack", StreamId::kCompute, Phase::kForward, {}, {v}));
      ++report_.packed_values;
      report_.packed_saved_bytes += bytes(v) - bytes(stored);
    }
    if (decision.partition) {
      const uint64_t whole = bytes(stored);
      stored = insert(behind, make("kept/" + name, "checkpoint_slice", StreamId::kCompute, Phase::kForward,
                                   {{"size", settings_.tensor_size}}, {stored}));
      ++report_.partitioned_values;
      report_.partition_saved_bytes += whole - bytes(stored);
    }
    if (decision.host) {
      stored = insert(behind, make("host/" + name, "copy_to_host", StreamId::kDeviceToHost, Phase::kForward,
                                   {}, {stored}));
      ++report_.host_values;
      report_.host_saved_bytes += bytes(stored);
      report_.to_host_bytes += bytes(stored);
      hold_back(layer + kLayersInFlight, stored);
      in_host = stored;
    }
    if (decision.disk) {
      stored = insert(behind, make("disk/" + name, "write_to_disk", StreamId::kDisk, Phase::kForward, {},
                                   {stored, ring()}));
      ++report_.disk_values;
      report_.disk_saved_bytes += bytes(stored);
      report_.to_disk_bytes += bytes(stored);
      hold_back(layer + (decision.host ? kLayersInHost : kLayersInFlight), stored);
    }
    return {in_host, stored};
  }

  // Forward of that layer waits until the value is out, which is what frees the place from which it goes.
  void hold_back(int layer, ValueId out) {
    const auto later = first_forward_.find(layer);
    const int position = later != first_forward_.end() ? later->second : last_forward_;
    ops_[position].after.push_back(out);
  }

  // Where the backward begins that is `ahead` layers before the one of `layer`.
  int backward_ahead(int layer, int64_t ahead) const {
    const auto found = first_backward_.find(static_cast<int>(layer + ahead));
    return found != first_backward_.end() && layer + ahead < layers_ ? found->second
                                                                     : first_backward_.begin()->second;
  }

  ValueId fetch(ValueId v, ValueId stored, const Decision& decision, int layer, int first_use) {
    const std::string name = "fetched/layer" + std::to_string(layer) + "/" + graph_.value(v).name;
    const std::string whole = packs(v) ? name + "/packed" : name,
                      part = decision.partition ? whole + "/part" : whole;
    const int position = std::min(backward_ahead(layer, settings_.prefetch), first_use);
    const auto bring = [&](int before, const std::string& called, const char* kind, StreamId stream,
                           Attributes attributes, std::vector<ValueId> inputs) {
      Op op = make(called, kind, stream, Phase::kBackward, std::move(attributes), std::move(inputs));
      if (stream != StreamId::kCompute) op.after = made_before(before);
      stored = insert(before_[before], std::move(op));
    };
    if (decision.disk) {
      const int earlier =
          decision.host ? std::min(backward_ahead(layer, settings_.prefetch + 1), position) : position;
      bring(earlier, decision.host ? name + "/host" : part, "read_from_disk", StreamId::kDisk,
            {{"to", std::string(decision.host ? "host" : "device")}}, {stored, ring()});
      report_.from_disk_bytes += graph_.value(stored).bytes();
    }
    if (decision.host) {
      bring(position, part, "copy_to_device", StreamId::kHostToDevice, {}, {stored});
      report_.to_device_bytes += graph_.value(stored).bytes();
    }
    if (decision.partition) {
      bring(position, whole, "checkpoint_gather", StreamId::kGather,
            gather_attributes(graph_.value(v), settings_.tensor_size), {stored});
      report_.gathered_bytes += graph_.value(stored).bytes();
    }
    if (packs(v))
      bring(first_use, name, "checkpoint_unpack", StreamId::kCompute,
            {{"dtype", std::string(name_of(graph_.value(v).dtype))}}, {stored});
    report_.returned.push_back({v, stored});
    report_.prefetch_that_matters = std::max<int64_t>(report_.prefetch_that_matters, layers_ - layer);
    return stored;
  }

  bool packs(ValueId v) const {
    const Value& value = graph_.value(v);
    return settings_.bf16 && is_floating(value.dtype) && size_of(value.dtype) > size_of(DType::kBF16) &&
           !is_statistic(graph_, v);
  }

  // The buffer of all requests to the disk.
  ValueId ring() {
    if (ring_ == kNone)
      ring_ = graph_.add_value({.name = "disk/ring",
                                .shape = {static_cast<int64_t>(DiskStore::kRingBytes)},
                                .dtype = DType::kU8,
                                .category = Category::kWorkspace,
                                .space = MemorySpace::kHost,
                                .persistent = true});
    return ring_;
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
  std::vector<std::vector<int>> read_at_;  // by value: positions in backward
  int layers_;
  std::map<int, int> first_forward_, first_backward_;  // by layer: position
  int last_forward_ = 0;
  ValueId ring_ = kNone;
  std::map<int, std::vector<Op>> before_, behind_;  // ops to insert, by position
  ResidencyReport report_;
};

}  // namespace

ResidencyReport place_kept_values(Graph& graph, const OpRegistry& registry, const Plan& plan,
                                  const ResidencySettings& settings) {
  Residency residency(graph, registry, settings);
  const std::vector<ValueId> inputs = layer_inputs(graph);
  const std::set<ValueId> of_layers(inputs.begin(), inputs.end());
  for (ValueId v : saved_values(graph)) {
    const auto decision = plan.values.find(graph.value(v).name);
    if (decision == plan.values.end() || !decision->second.keep) continue;
    graph.value(v).pooled = settings.pooled;
    const ValueId waiting = residency.move(v, decision->second);
    if (of_layers.contains(v)) residency.count_layer_input(waiting);
  }
  return residency.finish();
}

}  // namespace recollect
