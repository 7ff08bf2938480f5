#include "parallel/gradient_reduction.h"

#include <algorithm>
#include <string>

#include "parallel/mesh.h"

namespace recollect {

namespace {

struct Ready {
  OpId last_write;
  ValueId gradient;
  bool partial;
};

// In the order in which backward completes them, which is also their order in memory.
std::vector<Ready> by_completion(const Graph& graph, const std::vector<Parameter>& parameters) {
  std::vector<OpId> last(graph.values().size(), kNone);
  for (OpId id = 0; id < static_cast<OpId>(graph.ops().size()); ++id)
    for (ValueId v : graph.op(id).outputs)
      if (v != kNone) last[v] = id;
  std::vector<Ready> ready;
  for (const Parameter& p : parameters)
    if (p.gradient != kNone) ready.push_back({last[p.gradient], p.gradient, p.partial_gradient});
  std::sort(ready.begin(), ready.end(), [](const Ready& a, const Ready& b) {
    return a.last_write != b.last_write ? a.last_write < b.last_write : a.gradient < b.gradient;
  });
  return ready;
}

Op reduction_op(const OpRegistry& registry, const std::string& name, std::string_view axis, int size,
                std::vector<ValueId> gradients) {
  return {.def = registry.find("all_reduce_accumulators"),
          .name = name,
          .attributes = {{"axis", std::string(axis)}, {"size", int64_t{size}}},
          .inputs = gradients,
          .outputs = std::move(gradients),
          .phase = Phase::kBackward,
          .when = RunWhen::kLastMicroBatch,
          .stream = StreamId::kCommunication};
}

}  // namespace

void reduce_gradients(Graph& graph, const OpRegistry& registry, const std::vector<Parameter>& parameters,
                      const GradientReduction& reduction) {
  std::vector<std::vector<Op>> after(graph.ops().size());  // ops to insert behind each op
  std::vector<ValueId> bucket, partial;
  uint64_t bytes = 0;
  int number = 0;
  const auto flush = [&](OpId behind) {
    const std::string name = "reduce/bucket" + std::to_string(number++);
    if (!partial.empty() && reduction.tensor_size > 1)
      after[behind].push_back(
          reduction_op(registry, name + "/tensor", kTensorAxis, reduction.tensor_size, partial));
    if (!bucket.empty() && reduction.data_size > 1)
      after[behind].push_back(reduction_op(registry, name + "/data", kDataAxis, reduction.data_size, bucket));
    bucket.clear();
    partial.clear();
    bytes = 0;
  };
  OpId last = kNone;
  for (const Ready& ready : by_completion(graph, parameters)) {
    last = ready.last_write;
    bucket.push_back(ready.gradient);
    if (ready.partial) partial.push_back(ready.gradient);
    bytes += graph.value(ready.gradient).bytes();
    if (bytes >= reduction.bucket_bytes) flush(last);
  }
  if (last != kNone) flush(last);

  std::vector<Op> ops;
  for (OpId id = 0; id < static_cast<OpId>(graph.ops().size()); ++id) {
    ops.push_back(graph.op(id));
    for (Op& op : after[id]) ops.push_back(std::move(op));
  }
  graph.set_ops(std::move(ops));
}

}  // namespace recollect
