#include "parallel/gradient_reduction.h"

#include <algorithm>
#include <string>

#include "engine/graph/graph_edit.h"
#include "engine/graph/op_builder.h"
#include "parallel/mesh.h"

namespace recollect {

namespace {

struct Ready {
  OpId last_write;
  ValueId gradient;
  bool partial;
  bool repeated;
};

// In the order in which backward completes them.
std::vector<Ready> by_completion(const Graph& graph, const std::vector<Parameter>& parameters) {
  std::vector<OpId> last(graph.values().size(), kNone);
  for (OpId id : graph.op_ids())
    for (ValueId v : graph.op(id).outputs)
      if (v != kNone) last[v] = id;
  std::vector<Ready> ready;
  for (const Parameter& p : parameters)
    if (p.gradient != kNone)
      ready.push_back({last[p.gradient], p.gradient, p.partial_gradient, p.repeats > 1});
  std::sort(ready.begin(), ready.end(), [](const Ready& a, const Ready& b) {
    return a.last_write != b.last_write ? a.last_write < b.last_write : a.gradient < b.gradient;
  });
  return ready;
}

struct Bucket {
  std::vector<ValueId> gradients, partial, repeated;
  OpId complete = kNone;  // with this op
};

std::vector<Bucket> fill_buckets(const Graph& graph, const std::vector<Ready>& ready, uint64_t bucket_bytes) {
  std::vector<Bucket> buckets;
  uint64_t bytes = bucket_bytes;  // of the latest bucket; none is open yet
  for (const Ready& next : ready) {
    const Value& gradient = graph.value(next.gradient);
    if (bytes >= bucket_bytes || graph.value(buckets.back().gradients.front()).dtype != gradient.dtype) {
      buckets.emplace_back();
      bytes = 0;
    }
    Bucket& bucket = buckets.back();
    bucket.gradients.push_back(next.gradient);
    if (next.partial) bucket.partial.push_back(next.gradient);
    if (next.repeated) bucket.repeated.push_back(next.gradient);
    bucket.complete = next.last_write;
    bytes += gradient.bytes();
  }
  return buckets;
}

}  // namespace

void reduce_gradients(Graph& graph, const OpRegistry& registry, const std::vector<Parameter>& parameters,
                      const GradientReduction& reduction) {
  const OpBuilder ops(
      graph, registry,
      {.phase = Phase::kBackward, .when = RunWhen::kLastMicroBatch, .stream = StreamId::kCommunication});
  GraphEdit edit(graph);
  const std::vector<Bucket> buckets =
      fill_buckets(graph, by_completion(graph, parameters), reduction.bucket_bytes);
  int number = 0;
  for (const Bucket& bucket : buckets) {
    const std::string name = "reduce/bucket" + std::to_string(number++);
    const GroupId group = graph.add_group({.name = name, .members = bucket.gradients});
    const auto reduce = [&](std::string_view axis, int size, const std::vector<ValueId>& gradients) {
      if (gradients.empty() || size == 1) return;
      edit.insert_after(
          bucket.complete,
          ops.make(name + "/" + std::string(axis), "all_reduce_accumulators",
                   {{"axis", std::string(axis)}, {"size", int64_t{size}}, {"group", int64_t{group}}},
                   gradients, gradients));
    };
    reduce(kTensorAxis, reduction.tensor_size, bucket.partial);
    reduce(kRepeatAxis, reduction.repeats, bucket.repeated);
    reduce(kDataAxis, reduction.data_size, bucket.gradients);
  }
  edit.commit();
}

}  // namespace recollect
