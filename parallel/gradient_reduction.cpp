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
  const Parameter* parameter;
  ValueId gradient() const { return parameter->gradient; }
};

// In the order in which backward completes them.
std::vector<Ready> by_completion(const Graph& graph, const std::vector<Parameter>& parameters) {
  std::vector<OpId> last(graph.values().size(), kNone);
  for (OpId id : graph.op_ids())
    for (ValueId v : graph.op(id).outputs)
      if (v != kNone) last[v] = id;
  std::vector<Ready> ready;
  for (const Parameter& p : parameters)
    if (p.gradient != kNone) ready.push_back({last[p.gradient], &p});
  std::sort(ready.begin(), ready.end(), [](const Ready& a, const Ready& b) {
    return a.last_write != b.last_write ? a.last_write < b.last_write : a.gradient() < b.gradient();
  });
  return ready;
}

struct Bucket {
  std::vector<ValueId> gradients, partial, repeated, parts;
  OpId complete = kNone;  // with this op
};

std::vector<Bucket> fill_buckets(const Graph& graph, const std::vector<Ready>& ready, uint64_t bucket_bytes) {
  std::vector<Bucket> buckets;
  uint64_t bytes = bucket_bytes;  // of the latest bucket; none is open yet
  for (const Ready& next : ready) {
    const Parameter& p = *next.parameter;
    const Value& gradient = graph.value(p.gradient);
    if (bytes >= bucket_bytes || graph.value(buckets.back().gradients.front()).dtype != gradient.dtype) {
      buckets.emplace_back();
      bytes = 0;
    }
    Bucket& bucket = buckets.back();
    bucket.gradients.push_back(p.gradient);
    if (p.partial_gradient) bucket.partial.push_back(p.gradient);
    if (p.repeats > 1) bucket.repeated.push_back(p.gradient);
    if (p.gradient_part != kNone) bucket.parts.push_back(p.gradient_part);
    bucket.complete = next.last_write;
    bytes += gradient.bytes();
  }
  return buckets;
}

// Gradients that are parts between micro-batches are this micro-batch's alone while backward makes them.
void begin_anew(Graph& graph, const std::vector<Parameter>& parameters) {
  std::vector<char> anew(graph.values().size(), 0);
  for (const Parameter& p : parameters)
    if (p.gradient != kNone) anew[p.gradient] = 1;
  for (OpId id : graph.op_ids()) {
    Op& op = graph.op(id);
    if (op.accumulate != Accumulate::kAfterFirstMicroBatch) continue;
    const auto all = std::count_if(op.outputs.begin(), op.outputs.end(),
                                   [&](ValueId v) { return v != kNone && graph.value(v).accumulator; });
    const auto gradients =
        std::count_if(op.outputs.begin(), op.outputs.end(), [&](ValueId v) { return v != kNone && anew[v]; });
    if (gradients == 0) continue;
    if (gradients == all)
      op.accumulate = Accumulate::kNever;
    else
      op.attributes.set("overwrite", int64_t{1});  // it adds to the loss too
  }
}

std::vector<uint64_t> rooms_of(const Graph& graph, const Bucket& bucket, const DataParts& parts) {
  std::vector<uint64_t> rooms;
  if (parts.divides())
    for (ValueId v : bucket.gradients) rooms.push_back(room_for_parts(graph.value(v), parts.size));
  return rooms;
}

}  // namespace

void reduce_gradients(Graph& graph, const OpRegistry& registry, std::vector<Parameter>& parameters,
                      const GradientReduction& reduction) {
  const DataParts parts{reduction.zero_stage, reduction.data_size, reduction.data_rank};
  if (parts.divides())
    for (Parameter& p : parameters) divide_parameter(graph, p, parts);
  if (parts.divides_gradients()) begin_anew(graph, parameters);
  const OpBuilder ops(
      graph, registry,
      {.phase = Phase::kBackward,
       .accumulate = parts.divides_gradients() ? Accumulate::kAfterFirstMicroBatch : Accumulate::kNever,
       .when = parts.divides_gradients() ? RunWhen::kAlways : RunWhen::kLastMicroBatch,
       .stream = StreamId::kCommunication});
  GraphEdit edit(graph);
  const std::vector<Bucket> buckets =
      fill_buckets(graph, by_completion(graph, parameters), reduction.bucket_bytes);
  int number = 0;
  for (const Bucket& bucket : buckets) {
    const std::string name = "reduce/bucket" + std::to_string(number++);
    const GroupId group =
        graph.add_group({.name = name, .members = bucket.gradients, .rooms = rooms_of(graph, bucket, parts)});
    const auto reduce = [&](std::string_view axis, int size, const std::vector<ValueId>& gradients) {
      if (gradients.empty() || size == 1) return;
      edit.insert_after(
          bucket.complete,
          ops.make(name + "/" + std::string(axis), "all_reduce_accumulators",
                   {{"axis", std::string(axis)}, {"size", int64_t{size}}, {"group", int64_t{group}}},
                   gradients, gradients));
    };
    const auto scatter = [&] {
      edit.insert_after(bucket.complete,
                        ops.make(name + "/" + std::string(kDataAxis), "reduce_scatter_accumulators",
                                 {{"axis", std::string(kDataAxis)}, {"size", int64_t{parts.size}}},
                                 bucket.gradients, bucket.parts));
    };
    reduce(kTensorAxis, reduction.tensor_size, bucket.partial);
    reduce(kRepeatAxis, reduction.repeats, bucket.repeated);
    if (parts.divides())
      scatter();
    else
      reduce(kDataAxis, reduction.data_size, bucket.gradients);
  }
  edit.commit();
}

}  // namespace recollect
