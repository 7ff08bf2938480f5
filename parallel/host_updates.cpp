#include "parallel/host_updates.h"

#include <algorithm>
#include <utility>

#include "engine/core/arena.h"
#include "parallel/offloaded_states.h"

namespace recollect {

namespace {

// One chunk's gradient comes while another one is updated and the parameter of a third goes.
constexpr std::size_t kSlots = 3;

}  // namespace

HostUpdates::HostUpdates(Graph& graph, const OpRegistry& registry, int64_t chunk_elements, ValueId schedule,
                         ValueId factor)
    : graph_(graph),
      ops_(graph, registry, {.phase = Phase::kOptimizer}),
      chunk_elements_(chunk_elements),
      schedule_(schedule),
      factor_(factor) {}

void HostUpdates::add(const Parameter& p) {
  require(p.master != p.value, p.name + ": it has no master in the host's memory");
  const std::vector<ElementRange> ranges =
      cut_into_chunks(graph_.value(p.gradient).shape.elements(), chunk_elements_);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const std::string suffix = "/chunk" + std::to_string(i);
    const auto part = [&](ValueId whole) {
      return chunk_of(graph_, whole, {ranges[i].count}, ranges[i].first, suffix);
    };
    Chunk chunk{.piece = p, .gradient = part(p.gradient), .parameter = part(p.value)};
    if (ranges.size() > 1) chunk.piece.name += suffix;
    chunk.piece.master = part(p.master);
    for (Parameter::State& state : chunk.piece.states) state.value = part(state.value);
    chunk.is_last = i + 1 == ranges.size();
    report_.stored_bytes += graph_.value(chunk.gradient).bytes();
    report_.fetched_bytes += graph_.value(chunk.parameter).bytes();
    chunks_.push_back(std::move(chunk));
  }
  const auto count = [&](ValueId v, bool on_device_otherwise) {
    require(graph_.value(v).space == MemorySpace::kHost,
            graph_.value(v).name + " is not where it is updated");
    ++report_.values;
    if (!on_device_otherwise) return;
    report_.saved_bytes += aligned(graph_.value(v).bytes());
    report_.stayed_bytes += graph_.value(v).bytes();
  };
  ++report_.parameters;
  report_.chunks += static_cast<int64_t>(ranges.size());
  count(p.master, graph_.value(p.master).dtype != graph_.value(p.value).dtype);
  for (const Parameter::State& state : p.states) count(state.value, true);
}

ValueId HostUpdates::host_memory(const std::string& name, const Shape& shape, DType dtype) {
  return graph_.add_value({.name = "host_update/" + name,
                           .shape = shape,
                           .dtype = dtype,
                           .category = Category::kWorkspace,
                           .space = MemorySpace::kHost,
                           .persistent = true});
}

// Of the slot's memory what a chunk takes.
ValueId HostUpdates::staged(ValueId slot, ValueId chunk) {
  Value part = graph_.value(chunk);
  part.name = "host_update/" + part.name;
  part.category = Category::kWorkspace;
  part.space = MemorySpace::kHost;
  part.persistent = true;
  part.group = kNone;
  part.part_of = slot;
  part.part_offset = 0;
  return graph_.add_value(std::move(part));
}

ValueId HostUpdates::copied(const std::string& name, ValueId value) {
  const Value of = graph_.value(value);
  const ValueId copy = host_memory(name, of.shape, of.dtype);
  store(value, copy, {});
  return copy;
}

void HostUpdates::store(ValueId from, ValueId to, std::vector<ValueId> after) {
  ops_.common().stream = StreamId::kDeviceToHost;
  ops_.common().after = std::move(after);
  ops_.append("store/" + graph_.value(from).name, "store_state", {}, {from}, {to});
}

// The copy of the factor comes before those of gradients, on one stream.
void HostUpdates::begin() {
  uint64_t gradient = 0, parameter = 0;
  for (const Chunk& chunk : chunks_) {
    gradient = std::max(gradient, graph_.value(chunk.gradient).bytes());
    parameter = std::max(parameter, graph_.value(chunk.parameter).bytes());
  }
  for (std::size_t i = 0; i < std::min(kSlots, chunks_.size()); ++i) {
    const auto memory = [&](const char* what, uint64_t bytes) {
      return host_memory(what + std::to_string(i), {static_cast<int64_t>(bytes)}, DType::kU8);
    };
    slots_.push_back({memory("gradients", gradient), memory("parameters", parameter)});
  }
  place_ = {.schedule = copied("schedule", schedule_), .factor = copied("factor", factor_), .on_host = true};
}

// A slot's gradient is there again when the update has read it, and its parameter when it has been copied: `after` says so,
// since each chunk has values of its own there.
ValueId HostUpdates::update_next(const Update& update) {
  if (next_ == 0) begin();
  while (true) {
    Chunk& chunk = chunks_.at(next_);
    const Slot& slot = slots_[next_ % kSlots];
    const Chunk* const before = next_ < kSlots ? nullptr : &chunks_[next_ - kSlots];
    chunk.piece.gradient = staged(slot.gradient, chunk.gradient);
    chunk.piece.value = staged(slot.parameter, chunk.parameter);
    store(chunk.gradient, chunk.piece.gradient,
          before ? std::vector<ValueId>{before->piece.master} : std::vector<ValueId>{});
    place_.after.clear();
    if (before) place_.after.push_back(before->parameter);
    update(chunk.piece, place_);
    ops_.common().stream = StreamId::kHostToDevice;
    ops_.common().after.clear();
    ops_.append("fetch/" + graph_.value(chunk.parameter).name, "fetch_state", {}, {chunk.piece.value},
                {chunk.parameter});
    ++next_;
    if (chunk.is_last) return chunk.parameter;
  }
}

void HostUpdates::finish() {
  if (next_ == 0) return;
  ops_.common().stream = StreamId::kCompute;
  ops_.common().after = {chunks_[next_ - 1].parameter};
  ops_.append("update/on_host", "await_updates", {}, {});
}

}  // namespace recollect
