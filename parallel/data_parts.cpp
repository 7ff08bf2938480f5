#include "parallel/data_parts.h"

#include <numeric>
#include <string>

namespace recollect {

namespace {

constexpr int64_t kPartAlignment = 64, kNarrowest = 2;  // bytes

Shape part_shape(const Shape& whole, int64_t rows) {
  Shape shape = whole;
  shape[0] = rows;
  return shape;
}

// The rows of `whole` that this data rank has, where they lie in it.
ValueId part_within(Graph& graph, ValueId whole, int64_t rows, const DataParts& parts) {
  Value part = graph.value(whole);
  part.name += "/part";
  part.shape = part_shape(part.shape, rows);
  part.placement = part.placement.and_over(kDataAxis);
  part.accumulator = true;
  part.producer = kNone;
  part.part_of = whole;
  part.part_offset = static_cast<uint64_t>(parts.rank) * part.bytes();
  return graph.add_value(std::move(part));
}

// What lasts is the part; the whole is there while somebody needs it.
ValueId part_apart(Graph& graph, ValueId whole, int64_t rows) {
  Value part = graph.value(whole);
  part.name += "/part";
  part.shape = part_shape(part.shape, rows);
  part.placement = part.placement.and_over(kDataAxis);
  part.accumulator = true;
  part.producer = kNone;
  graph.value(whole).persistent = false;
  return graph.add_value(std::move(part));
}

void divide_value(Graph& graph, Parameter& p, const DataParts& parts) {
  graph.add_group({.name = "parts/" + p.name,
                   .members = {p.value},
                   .rooms = {room_for_parts(graph.value(p.value), parts.size)}});
  if (!parts.divides_values()) {
    graph.value(p.value).accumulator = true;
    p.value_part = part_within(graph, p.value, p.part_rows, parts);
    return;
  }
  p.whole = p.value;
  p.value = p.value_part = part_apart(graph, p.whole, p.part_rows);
}

}  // namespace

int64_t part_rows(const Shape& shape, int size) {
  int64_t row = kNarrowest;  // bytes
  for (int dim = 1; dim < shape.rank(); ++dim) row *= shape[dim];
  const int64_t together = kPartAlignment / std::gcd(kPartAlignment, row);
  const int64_t rows = (shape[0] + size - 1) / size;
  return (rows + together - 1) / together * together;
}

uint64_t room_for_parts(const Value& value, int size) {
  const uint64_t row = value.bytes() / static_cast<uint64_t>(value.shape[0]);
  return static_cast<uint64_t>(part_rows(value.shape, size)) * static_cast<uint64_t>(size) * row;
}

void divide_parameter(Graph& graph, Parameter& p, const DataParts& parts) {
  const bool frozen = p.gradient == kNone;
  if (frozen && !parts.divides_values()) return;
  p.part_rows = part_rows(graph.value(p.value).shape, parts.size);
  divide_value(graph, p, parts);
  if (frozen) {
    graph.value(p.value).accumulator = false;  // nothing updates it
    return;
  }
  p.gradient_part = parts.divides_gradients() ? part_apart(graph, p.gradient, p.part_rows)
                                              : part_within(graph, p.gradient, p.part_rows, parts);
}

Division division_of(const Graph& graph, const std::vector<Parameter>& parameters, int data_size) {
  Division division;
  for (const Parameter& p : parameters) {
    if (p.part_rows == 0) continue;
    const Value& value = graph.value(p.whole != kNone ? p.whole : p.value);
    const auto rows = static_cast<uint64_t>(value.shape[0]), part = static_cast<uint64_t>(p.part_rows);
    const auto divided = [&](ValueId id) {
      const uint64_t held = graph.value(id).bytes(), whole = held / part * rows;
      ++division.values;
      division.saved_bytes += whole > held ? whole - held : 0;
    };
    for (const Parameter::State& state : p.states) divided(state.value);
    if (p.master != kNone && p.master != p.value) divided(p.master);
    if (p.whole != kNone) divided(p.value);
    if (p.gradient_part != kNone && graph.value(p.gradient_part).part_of == kNone) divided(p.gradient_part);
    if (p.whole == kNone)
      division.gathered_bytes += graph.value(p.value_part).bytes() * static_cast<uint64_t>(data_size - 1);
  }
  return division;
}

}  // namespace recollect
