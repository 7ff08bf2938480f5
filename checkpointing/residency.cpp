#include "checkpointing/residency.h"

#include <algorithm>
#include <map>
#include <set>

#include "checkpointing/batch_halves.h"
#include "checkpointing/residency_ops.h"
#include "engine/core/statistics_dtype.h"
#include "engine/graph/graph_edit.h"
#include "engine/graph/op_builder.h"
#include "engine/runtime/disk_ring.h"

namespace recollect {

namespace {

// Forward runs at most so many layers ahead of what frees the device, and so many ahead of the disk, where
// host memory is the buffer before it; there, the last layers to leave are still in the buffer when they are
// wanted.
constexpr int kLayersInFlight = 2, kLayersInHost = 3, kLayersFromHost = 2;

class Residency {
 public:
  Residency(Graph& graph, const OpRegistry& registry, const SavedActivations& saved,
            const ResidencySettings& settings)
      : graph_(graph),
        ops_(graph, registry),
        edit_(graph),
        saved_(saved),
        settings_(settings),
        readers_(graph.values().size()),
        of_batch_(values_of_batch(graph)),
        layers_(static_cast<int>(saved.layer_inputs().size())) {
    for (OpId id : graph.op_ids()) {
      const Op& op = graph.op(id);
      if (op.phase == Phase::kForward) first_forward_.try_emplace(op.layer, id);
      if (op.phase == Phase::kForward) last_forward_ = id;
      if (op.phase != Phase::kBackward) continue;
      first_backward_.try_emplace(op.layer, id);
      for (ValueId v : op.inputs)
        if (v != kNone && (readers_[v].empty() || readers_[v].back() != id)) readers_[v].push_back(id);
    }
  }

  // Returns what waits for backward: the value itself, or what is stored of it.
  ValueId move(ValueId v, const Decision& decision) {
    Uses uses;
    for (OpId id : readers_[v]) uses[graph_.op(id).layer].push_back(id);
    const bool leaves = decision.partition || decision.host || decision.disk;
    const auto carry_out = [&](const Decision& done) {
      if (done != decision) report_.otherwise.emplace_back(v, done);
    };
    if (uses.empty() || !(leaves || packs(v)) || needed_at_once(uses, decision)) {
      carry_out({});
      return v;
    }
    Decision buffered = decision;  // for layers whose backward finds it in host memory on its way to the disk
    buffered.disk = decision.disk && !decision.host;
    const auto soon = [&](int layer) { return layer >= layers_ - settings_.keep_last - kLayersFromHost; };
    const bool all_soon =
        std::all_of(uses.begin(), uses.end(), [&](const auto& item) { return soon(item.first); });
    const Stored stored = store(v, all_soon ? buffered : decision);
    carry_out(all_soon ? buffered : decision);
    for (const auto& [layer, readers] : uses) {
      const ValueId from = soon(layer) && decision.host ? stored.in_host : stored.last;
      const ValueId again =
          fetch(v, from, stored.scale, soon(layer) ? buffered : decision, layer, readers.front());
      for (OpId reader : readers) edit_.replace_input(reader, v, again);
    }
    return stored.last;
  }

  void count_layer_input(ValueId waiting) {
    const Value& value = graph_.value(waiting);
    report_.layer_inputs[static_cast<int>(value.space)] +=
        static_cast<uint64_t>(settings_.halves) * value.bytes();
  }

  ResidencyReport finish() {
    // What is fetched for several layers at once: backward comes to the deepest first.
    std::stable_sort(fetches_.begin(), fetches_.end(),
                     [](const Fetch& a, const Fetch& b) { return a.op.layer > b.op.layer; });
    for (Fetch& fetch : fetches_) edit_.insert_before(fetch.place, std::move(fetch.op));
    edit_.commit();
    return report_;
  }

 private:
  using Uses = std::map<int, std::vector<OpId>>;  // the layer whose backward it is -> the ops that read

  struct Fetch {
    OpId place = kNone;  // before which it is to stand
    Op op;
  };

  // Of both halves, where halves of a batch take turns.
  int64_t copies(ValueId v) const { return of_batch_[static_cast<std::size_t>(v)] ? settings_.halves : 1; }
  uint64_t all(ValueId v, uint64_t bytes) const { return static_cast<uint64_t>(copies(v)) * bytes; }

  // `uses` by layer: the first is that of the ops behind the layers, where there are any.
  bool needed_at_once(const Uses& uses, const Decision& decision) {
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

  // Makes the op and its output, without a place in the program yet.
  Op make(const std::string& name, const char* kind, StreamId stream, Phase phase, Attributes attributes,
          std::vector<ValueId> inputs) {
    Op op = ops_.make(name, kind, std::move(attributes), std::move(inputs));
    op.layer = graph_.value(op.inputs.front()).layer;
    op.phase = phase;
    op.stream = stream;
    graph_.infer_outputs(op);
    Value& made = graph_.value(op.outputs.front());
    made.pooled = settings_.pooled && made.space == MemorySpace::kDevice;
    return op;
  }

  struct Stored {
    ValueId in_host = kNone;  // on its way
    ValueId last = kNone;
    ValueId scale = kNone;  // of codes
  };

  Stored store(ValueId v, const Decision& decision) {
    const std::string name = graph_.value(v).name;
    const OpId producer = graph_.value(v).producer;
    const int layer = graph_.op(producer).layer;
    const auto bytes = [this](ValueId value) { return graph_.value(value).bytes(); };
    ValueId stored = v, in_host = kNone, scale = kNone;
    const auto send = [&](const char* to, const char* kind, StreamId stream, Attributes attributes,
                          std::vector<ValueId> inputs) {
      Op op = make(to + name, kind, stream, Phase::kForward, std::move(attributes), std::move(inputs));
      stored = op.outputs.front();
      if (op.outputs.size() > 1) scale = op.outputs.back();
      edit_.insert_after(producer, std::move(op));
    };
    if (packs(v)) {
      if (settings_.storage == StorageDType::kBF16)
        send("packed/", "checkpoint_pack", StreamId::kCompute, {}, {v});
      else
        send("packed/", "quantise", StreamId::kCompute,
             {{"format", std::string(name_of(settings_.storage))}, {"copies", std::string("rows")}}, {v});
      report_.packed_values += copies(v);
      report_.packed_saved_bytes += all(v, bytes(v) - bytes(stored) - (scale == kNone ? 0 : bytes(scale)));
    }
    if (decision.partition) {
      const uint64_t whole = bytes(stored);
      send("kept/", "checkpoint_slice", StreamId::kCompute, {{"size", settings_.tensor_size}}, {stored});
      report_.partitioned_values += copies(v);
      report_.partition_saved_bytes += all(v, whole - bytes(stored));
    }
    if (decision.host) {
      send("host/", "copy_to_host", StreamId::kDeviceToHost, {}, {stored});
      report_.host_values += copies(v);
      report_.host_saved_bytes += all(v, bytes(stored));
      report_.to_host_bytes += all(v, bytes(stored));
      hold_back(layer + kLayersInFlight, stored);
      in_host = stored;
    }
    if (decision.disk) {
      send("disk/", "write_to_disk", StreamId::kDisk, {}, {stored, ring()});
      report_.disk_values += copies(v);
      report_.disk_saved_bytes += all(v, bytes(stored));
      report_.to_disk_bytes += all(v, bytes(stored));
      hold_back(layer + (decision.host ? kLayersInHost : kLayersInFlight), stored);
    }
    return {in_host, stored, scale};
  }

  // Forward of that layer waits until the value is out, which is what frees the place from which it goes.
  void hold_back(int layer, ValueId out) {
    const auto later = first_forward_.find(layer);
    graph_.op(later != first_forward_.end() ? later->second : last_forward_).after.push_back(out);
  }

  // Where the backward begins that is `ahead` layers before the one of `layer`.
  OpId backward_ahead(int layer, int64_t ahead) const {
    const auto found = first_backward_.find(static_cast<int>(layer + ahead));
    return found != first_backward_.end() && layer + ahead < layers_ ? found->second
                                                                     : first_backward_.begin()->second;
  }

  ValueId fetch(ValueId v, ValueId stored, ValueId scale, const Decision& decision, int layer,
                OpId first_use) {
    const std::string name = "fetched/layer" + std::to_string(layer) + "/" + graph_.value(v).name;
    const std::string whole = packs(v) ? name + "/packed" : name,
                      part = decision.partition ? whole + "/part" : whole;
    const OpId ahead = std::min(backward_ahead(layer, settings_.prefetch), first_use);
    const auto bring = [&](OpId place, const std::string& called, const char* kind, StreamId stream,
                           Attributes attributes, std::vector<ValueId> inputs) {
      Op op = make(called, kind, stream, Phase::kBackward, std::move(attributes), std::move(inputs));
      if (stream != StreamId::kCompute) op.after = made_before(place);
      stored = op.outputs.front();
      fetches_.push_back({place, std::move(op)});
    };
    if (decision.disk) {
      const OpId earlier =
          decision.host ? std::min(backward_ahead(layer, settings_.prefetch + 1), ahead) : ahead;
      bring(earlier, decision.host ? name + "/host" : part, "read_from_disk", StreamId::kDisk,
            {{"to", std::string(decision.host ? "host" : "device")}}, {stored, ring()});
      report_.from_disk_bytes += all(v, graph_.value(stored).bytes());
    }
    if (decision.host) {
      bring(ahead, part, "copy_to_device", StreamId::kHostToDevice, {}, {stored});
      report_.to_device_bytes += all(v, graph_.value(stored).bytes());
    }
    if (decision.partition) {
      bring(ahead, whole, "checkpoint_gather", StreamId::kGather,
            gather_attributes(graph_.value(v), settings_.tensor_size), {stored});
      report_.gathered_bytes += all(v, graph_.value(stored).bytes());
    }
    const std::string dtype(name_of(graph_.value(v).dtype));
    if (scale != kNone)
      bring(first_use, name, "dequantise", StreamId::kCompute,
            {{"dtype", graph_.value(scale).dtype == graph_.value(v).dtype ? "statistics" : dtype}},
            {stored, scale});
    else if (packs(v))
      bring(first_use, name, "checkpoint_unpack", StreamId::kCompute, {{"dtype", dtype}}, {stored});
    report_.returned.push_back({v, stored});
    report_.prefetch_that_matters = std::max<int64_t>(report_.prefetch_that_matters, layers_ - layer);
    return stored;
  }

  bool packs(ValueId v) const {
    const Value& value = graph_.value(v);
    if (settings_.storage == StorageDType::kSame || !is_floating(value.dtype) || saved_.is_statistic(v))
      return false;
    const std::size_t size = size_of(value.dtype);
    if (settings_.storage == StorageDType::kBF16) return size > size_of(DType::kBF16);
    const auto elements = static_cast<std::size_t>(value.shape.elements());
    return size * elements > elements + size_of(statistics_dtype(value.dtype));
  }

  // The buffer of all requests to the disk.
  ValueId ring() {
    if (ring_ == kNone) ring_ = disk_ring(graph_);
    return ring_;
  }

  // What the nearest compute op before this place made.
  std::vector<ValueId> made_before(OpId place) const {
    for (OpId id = place - 1; id >= 0; --id)
      if (graph_.op(id).stream == StreamId::kCompute)
        for (ValueId v : graph_.op(id).outputs)
          if (v != kNone && !graph_.value(v).accumulator) return {v};
    return {};
  }

  Graph& graph_;
  OpBuilder ops_;
  GraphEdit edit_;
  const SavedActivations& saved_;
  const ResidencySettings& settings_;
  std::vector<std::vector<OpId>> readers_;  // by value: in backward
  std::vector<char> of_batch_;              // by value
  int layers_;
  std::map<int, OpId> first_forward_, first_backward_;  // by layer
  OpId last_forward_ = 0;
  ValueId ring_ = kNone;
  std::vector<Fetch> fetches_;
  ResidencyReport report_;
};

}  // namespace

ResidencyReport place_saved_activations(Graph& graph, const OpRegistry& registry,
                                        const SavedActivations& saved, const Plan& plan,
                                        const ResidencySettings& settings) {
  Residency residency(graph, registry, saved, settings);
  const std::set<ValueId> of_layers(saved.layer_inputs().begin(), saved.layer_inputs().end());
  for (ValueId v : saved.values()) {
    const auto decision = plan.values.find(graph.value(v).name);
    if (decision == plan.values.end() || !decision->second.save) continue;
    graph.value(v).pooled = settings.pooled;
    const ValueId waiting = residency.move(v, decision->second);
    if (of_layers.contains(v)) residency.count_layer_input(waiting);
  }
  return residency.finish();
}

}  // namespace recollect
