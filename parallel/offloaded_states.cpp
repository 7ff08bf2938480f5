#include "parallel/offloaded_states.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "engine/runtime/disk_ring.h"

namespace recollect {

namespace {

// So many chunks are fetched before the first is updated; each further one when one is stored.
constexpr std::size_t kAhead = 2;

int64_t divided_up(int64_t number, int64_t by) { return (number + by - 1) / by; }

}  // namespace

std::vector<ElementRange> cut_into_chunks(int64_t elements, int64_t most) {
  require(elements > 0 && most >= kChunkGrain && most % kChunkGrain == 0, "a chunk is of whole grains");
  const int64_t chunks = divided_up(elements, most),
                each = divided_up(divided_up(elements, chunks), kChunkGrain) * kChunkGrain;
  std::vector<ElementRange> ranges;
  for (int64_t first = 0; first < elements; first += each)
    ranges.push_back({first, std::min(each, elements - first)});
  return ranges;
}

std::vector<ElementRange> cut_into_rows(int64_t rows, int64_t columns, int64_t most) {
  require(rows > 0 && columns > 0 && most > 0, "a chunk is of whole rows");
  const int64_t grain = std::lcm(kRowGrain, kChunkGrain / std::gcd(kChunkGrain, columns)),
                chunks = divided_up(rows * columns, most),
                each = divided_up(divided_up(rows, chunks), grain) * grain;
  std::vector<ElementRange> ranges;
  for (int64_t first = 0; first < rows; first += each)
    ranges.push_back({first * columns, std::min(each, rows - first) * columns});
  return ranges;
}

std::vector<char> choose_offloaded(const std::vector<uint64_t>& bytes, const std::vector<char>& may_leave,
                                   double ratio) {
  std::vector<std::size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return bytes[a] > bytes[b]; });
  const double wanted = ratio * static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), uint64_t{0}));
  std::vector<char> leaves(bytes.size(), 0);
  double sum = 0;
  for (const std::size_t i : order) {
    if (sum >= wanted) break;
    if (!may_leave[i]) continue;
    leaves[i] = 1;
    sum += static_cast<double>(bytes[i]);
  }
  return leaves;
}

MemorySpace space_of(OffloadTo to) {
  switch (to) {
    case OffloadTo::kNone:
      return MemorySpace::kDevice;
    case OffloadTo::kHost:
      return MemorySpace::kHost;
    case OffloadTo::kDisk:
      return MemorySpace::kDisk;
  }
  throw Error(ExitCode::kInternal, "states are kept nowhere");
}

ValueId chunk_of(Graph& graph, ValueId whole, const Shape& shape, int64_t first, const std::string& suffix) {
  Value part = graph.value(whole);
  part.shape = shape;
  part.name += suffix;
  part.accumulator = true;
  part.producer = kNone;
  part.part_of = whole;
  part.part_offset = static_cast<uint64_t>(first) * size_of(part.dtype);
  return graph.add_value(std::move(part));
}

OffloadedStates::OffloadedStates(Graph& graph, const OpRegistry& registry, const StateOffload& settings,
                                 bool whole_rows, ValueId before)
    : graph_(graph),
      ops_(graph, registry, {.phase = Phase::kOptimizer}),
      settings_(settings),
      space_(space_of(settings.to)),
      whole_rows_(whole_rows),
      before_(before) {}

std::vector<ElementRange> OffloadedStates::cut(const Shape& parameter) const {
  return whole_rows_ ? cut_into_rows(parameter[0], parameter[1], settings_.chunk_elements)
                     : cut_into_chunks(parameter.elements(), settings_.chunk_elements);
}

// What a value has of these elements of a parameter, where it lies: rows, which may be narrower than the parameter's, or a
// vector.
ValueId OffloadedStates::part_of(ValueId whole, const Shape& parameter, const ElementRange& range,
                                 const std::string& suffix) {
  const Value& value = graph_.value(whole);
  if (whole_rows_) {
    const int64_t columns = value.shape[1];
    return chunk_of(graph_, whole, {range.count / parameter[1], columns},
                    range.first / parameter[1] * columns, suffix);
  }
  require(value.shape.elements() == parameter.elements(),
          value.name + " cannot be cut: it has no number for each element");
  return chunk_of(graph_, whole, {range.count}, range.first, suffix);
}

// The chunk's part of a master or a state; what lies elsewhere is for fetch() to fill in.
ValueId OffloadedStates::take(ValueId state, const Shape& parameter, const ElementRange& range,
                              const std::string& suffix, std::size_t place, Chunk& chunk) {
  const bool travels = graph_.value(state).space != MemorySpace::kDevice;
  const ValueId part = part_of(state, parameter, range, suffix);
  if (!travels) return part;
  chunk.moves.push_back({part, place});
  report_.fetched_bytes += graph_.value(part).bytes();
  report_.stored_bytes += graph_.value(part).bytes();
  return kNone;
}

void OffloadedStates::add(const Parameter& p) {
  const Shape shape = graph_.value(p.gradient).shape;
  const std::vector<ElementRange> ranges = cut(shape);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const std::string suffix = "/chunk" + std::to_string(i);
    Chunk chunk{.piece = p};
    Parameter& piece = chunk.piece;
    if (ranges.size() > 1) piece.name += suffix;
    piece.value = part_of(p.value, shape, ranges[i], suffix);
    piece.gradient = part_of(p.gradient, shape, ranges[i], suffix);
    piece.master = p.master == p.value ? piece.value : take(p.master, shape, ranges[i], suffix, 0, chunk);
    for (std::size_t s = 0; s < p.states.size(); ++s)
      piece.states[s].value = take(p.states[s].value, shape, ranges[i], suffix, s + 1, chunk);
    require(!chunk.moves.empty(), p.name + ": nothing of it lies elsewhere");
    chunk.is_last = i + 1 == ranges.size();
    chunks_.push_back(std::move(chunk));
  }
  const auto count = [&](ValueId v) {
    if (graph_.value(v).space == MemorySpace::kDevice) return;
    ++report_.values;
    report_.saved_bytes += aligned(graph_.value(v).bytes());
  };
  ++report_.parameters;
  report_.chunks += static_cast<int64_t>(ranges.size());
  if (p.master != p.value) count(p.master);
  for (const Parameter::State& state : p.states) count(state.value);
}

std::vector<ValueId> OffloadedStates::with_ring(ValueId value) {
  if (space_ != MemorySpace::kDisk) return {value};
  if (ring_ == kNone) ring_ = disk_ring(graph_);
  return {value, ring_};
}

ValueId& OffloadedStates::staged(Chunk& chunk, const Move& move) {
  return move.place == 0 ? chunk.piece.master : chunk.piece.states[move.place - 1].value;
}

// Behind the store of an earlier chunk, whose place it can take.
void OffloadedStates::fetch(std::size_t number) {
  if (number >= chunks_.size()) return;
  ops_.common().stream = space_ == MemorySpace::kDisk ? StreamId::kDisk : StreamId::kHostToDevice;
  const ValueId behind = number < kAhead ? before_ : chunks_[number - kAhead].moves.back().kept;
  ops_.common().after.clear();
  if (behind != kNone) ops_.common().after.push_back(behind);
  Chunk& chunk = chunks_[number];
  for (const Move& move : chunk.moves) {
    const ValueId here =
        ops_.append("fetch/" + graph_.value(move.kept).name, "fetch_state", {}, with_ring(move.kept))
            .outputs[0];
    graph_.value(here).accumulator = true;
    staged(chunk, move) = here;
  }
}

void OffloadedStates::store(Chunk& chunk) {
  ops_.common().stream = space_ == MemorySpace::kDisk ? StreamId::kDisk : StreamId::kDeviceToHost;
  ops_.common().after.clear();
  for (const Move& move : chunk.moves)
    ops_.append("store/" + graph_.value(move.kept).name, "store_state", {}, with_ring(staged(chunk, move)),
                {move.kept});
}

ValueId OffloadedStates::update_next(const Update& update) {
  if (next_ == 0)
    for (std::size_t i = 0; i < kAhead; ++i) fetch(i);
  while (true) {
    Chunk& chunk = chunks_.at(next_);
    update(chunk.piece);
    store(chunk);
    fetch(next_++ + kAhead);
    if (chunk.is_last) return chunk.piece.value;
  }
}

}  // namespace recollect
