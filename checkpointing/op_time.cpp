#include "checkpointing/op_time.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "engine/core/dtype.h"

namespace recollect {

namespace {

constexpr std::string_view kDrawing = " dropout";  // ends the key of kernels that draw random numbers

bool is_attention(std::string_view kind) { return kind.starts_with("attention"); }

bool multiplies(std::string_view kind) {
  return is_attention(kind) || kind.starts_with("linear") || kind == "lm_head_loss";
}

double arithmetic_rate(const OpView& view, const DeviceModel& device) {
  const std::string_view kind = view.op.def->name;
  if (!multiplies(kind)) return device.vector_flops;
  switch (view.in(0).dtype) {
    case DType::kF64:
      return device.gemm_f64;
    case DType::kF16:
    case DType::kBF16:
      return is_attention(kind) ? device.attention_bf16 : device.gemm_bf16;
    default:
      return is_attention(kind) ? device.attention_f32 : device.gemm_f32;
  }
}

double transfer_seconds(double bytes, const RateCurve& measured, double otherwise) {
  return bytes / (measured.empty() ? otherwise : rate_at(measured, bytes));
}

double link_seconds(const Op& op, double bytes, const DeviceModel& device) {
  if (bytes == 0) return 0;
  switch (op.stream) {
    case StreamId::kDeviceToHost:
      return transfer_seconds(bytes, device.copies, device.to_host_bandwidth);
    case StreamId::kHostToDevice:
      return transfer_seconds(bytes, device.copies, device.to_device_bandwidth);
    case StreamId::kDisk:
      return op.def->name == "write_to_disk"
                 ? transfer_seconds(bytes, device.disk_writes, device.disk_write_bandwidth)
                 : transfer_seconds(bytes, device.disk_reads, device.disk_read_bandwidth);
    default:
      return device.link_latency + transfer_seconds(bytes, device.collectives, device.link_bandwidth);
  }
}

// A head whose vocabulary is divided over ranks asks them twice for every chunk of rows.
double vocabulary_seconds(const OpView& view, const DeviceModel& device) {
  if (view.op.def->name != "lm_head_loss" || !view.in(1).placement.is_sharded_over(kTensorAxis)) return 0;
  const auto rows = static_cast<double>(view.in(0).shape[0]),
             chunk = static_cast<double>(view.attributes().integer("chunk_rows"));
  return 2 * std::ceil(rows / chunk) * device.link_latency;
}

const RateCurve* measured(std::string key, const DeviceModel& device) {
  auto found = device.kernels.find(key);
  if (found == device.kernels.end() && key.ends_with(kDrawing))
    found = device.kernels.find(key.erase(key.size() - kDrawing.size()));
  return found == device.kernels.end() ? nullptr : &found->second;
}

Cost cost_of(const OpView& view) { return view.op.def->cost ? view.op.def->cost(view) : Cost{}; }

// The longest input's, the first of several: parameters of the optimizer, not its scalars.
DType dtype_of(const OpView& view) {
  const Value* longest = nullptr;
  for (ValueId v : view.op.inputs)
    if (v != kNone && (!longest || view.graph.value(v).bytes() > longest->bytes()))
      longest = &view.graph.value(v);
  return longest ? longest->dtype : DType::kF32;
}

// All forms of Adam make one pass over the same memory.
std::string_view kernel_of(std::string_view kind) { return kind.starts_with("adam") ? "adamw" : kind; }

}  // namespace

KernelUse kernel_use(const OpView& view) {
  const Cost cost = cost_of(view);
  const std::string_view kind = view.op.def->name;
  KernelUse use{.key = std::string(kernel_of(kind)) + " " + std::string(name_of(dtype_of(view)))};
  if (view.attributes().has("p") && view.attributes().real("p") > 0) use.key += kDrawing;
  use.work = multiplies(kind) ? cost.flops : cost.bytes;
  use.amount = use.work;
  // One head of one sample is what a thread works on.
  if (kind == "attention") use.amount /= static_cast<double>(view.out(1).shape[0]);
  if (kind == "attention_backward") use.amount /= static_cast<double>(view.in(3).shape[0]);
  return use;
}

double op_seconds(const Graph& graph, const Op& op, const DeviceModel& device) {
  const OpView view{graph, op};
  const Cost cost = cost_of(view);
  const KernelUse use = device.kernels.empty() ? KernelUse{} : kernel_use(view);
  double here;
  if (const RateCurve* curve = device.kernels.empty() ? nullptr : measured(use.key, device);
      curve && use.work > 0)
    here = use.work / rate_at(*curve, use.amount);
  else
    here = std::max(cost.flops / arithmetic_rate(view, device), cost.bytes / device.memory_bandwidth);
  return device.launch_overhead + std::max(here, link_seconds(op, cost.link_bytes, device)) +
         vocabulary_seconds(view, device);
}

std::vector<double> memory_seconds(const Graph& graph, const DeviceModel& device) {
  struct Use {
    std::size_t op = 0;
    double touched = 0;  // by all, up to and with this use
    bool writes = false;
  };
  const std::vector<Op>& ops = graph.ops();
  std::vector<double> seconds(ops.size(), 0.0), operand_bytes(ops.size(), 0.0);
  if (device.memory_levels.empty()) return seconds;
  std::vector<Use> last(graph.values().size());
  double touched = 0;
  const auto use = [&](std::size_t id, ValueId v, bool writes, bool counts) {
    if (v == kNone || graph.value(v).space != MemorySpace::kDevice) return;
    const auto bytes = static_cast<double>(graph.value(v).bytes());
    if (counts) {
      const double took = bytes / rate_at(device.memory_levels, touched - last[v].touched + bytes);
      if (!writes) seconds[id] += took;
      if (last[v].writes) seconds[last[v].op] += took;
      operand_bytes[id] += bytes;
    }
    touched += bytes;
    last[v] = {id, touched, writes};
  };
  for (const bool counts : {false, true})  // the first round is the step before
    for (std::size_t id = 0; id < ops.size(); ++id) {
      for (ValueId v : ops[id].inputs) use(id, v, false, counts);
      for (ValueId v : ops[id].outputs) use(id, v, true, counts);
    }
  // Of a table only some rows are touched.
  for (std::size_t id = 0; id < ops.size(); ++id)
    if (const double bytes = cost_of({graph, ops[id]}).bytes; bytes < operand_bytes[id])
      seconds[id] *= bytes / operand_bytes[id];
  return seconds;
}

std::vector<double> op_durations(const Graph& graph, const DeviceModel& device) {
  std::vector<double> durations = memory_seconds(graph, device);
  for (std::size_t id = 0; id < durations.size(); ++id)
    durations[id] = std::max(durations[id], op_seconds(graph, graph.ops()[id], device));
  return durations;
}

}  // namespace recollect
