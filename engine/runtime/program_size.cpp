#include "engine/runtime/program_size.h"

#include <algorithm>
#include <map>
#include <string>

#include "engine/core/tensor.h"

namespace recollect {

namespace {

constexpr uint64_t kHeader = 8, kGranule = 16, kLeast = 32;  // block sizes of the C library's heap
constexpr uint64_t kTreeNode = 32;                           // what a std::map adds to each element
// Bytes per op, measured with programs of hundreds of lengths. kPlanned: its kernel, and its share of the
// model and the plan. kNoted: what executor and streams store for it, besides its operands.
constexpr uint64_t kPlanned = 320, kNoted = 208;

uint64_t block(uint64_t bytes) {
  if (bytes == 0) return 0;
  return std::max(kLeast, (bytes + kHeader + kGranule - 1) / kGranule * kGranule);
}

uint64_t heap(const std::string& text) {
  static const std::size_t within = std::string().capacity();
  return text.capacity() > within ? block(text.capacity() + 1) : 0;
}

template <typename T>
uint64_t heap(const std::vector<T>& list) {
  return block(list.size() * sizeof(T));
}

uint64_t heap(const Attributes& attributes) {
  uint64_t bytes = 0;
  for (const auto& item : attributes.items()) {
    bytes += block(kTreeNode + sizeof item) + heap(item.first);
    if (const auto* text = std::get_if<std::string>(&item.second)) bytes += heap(*text);
  }
  return bytes;
}

uint64_t heap(const Op& op) {
  return heap(op.name) + heap(op.attributes) + heap(op.inputs) + heap(op.outputs) + heap(op.block) +
         heap(op.after);
}

uint64_t heap(const Value& value) {
  uint64_t bytes = heap(value.name) + heap(value.placement.axes());
  for (const std::string& axis : value.placement.axes()) bytes += heap(axis);
  return bytes;
}

}  // namespace

uint64_t host_bytes_of(const Program& program) {
  const Graph& graph = program.graph;
  const Layout& layout = program.layout;
  uint64_t bytes = heap(graph.ops()) + heap(graph.values()) + heap(graph.groups()) +
                   heap(program.schedule.waits) + heap(program.schedule.waited_for) +
                   heap(layout.value_offsets) + heap(layout.workspace_offsets) + heap(layout.storage) +
                   heap(program.workspaces);
  for (const Op& op : graph.ops()) bytes += heap(op) + kPlanned;
  for (const Value& value : graph.values()) bytes += heap(value);
  for (const Group& group : graph.groups())
    bytes += heap(group.name) + heap(group.members) + heap(group.offsets);
  for (const auto& waits : program.schedule.waits) bytes += heap(waits);
  return bytes;
}

uint64_t executor_host_bytes(const Program& program) {
  uint64_t bytes = 0;
  for (const Op& op : program.graph.ops())
    bytes += kNoted + block(op.inputs.size() * sizeof(Tensor)) + block(op.outputs.size() * sizeof(Tensor));
  return bytes;
}

}  // namespace recollect
