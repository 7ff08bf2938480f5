#include "checkpointing/op_time.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "engine/core/dtype.h"
#include "engine/ops/attention.h"

namespace recollect {

namespace {

// On a GPU, which has memory of its own, attention that its library does not take runs as in fp32.
bool runs_in_f32(const OpView& view, const DeviceModel& device) {
  if (device.host_memory_bandwidth == 0) return false;
  const std::string_view kind = view.op.def->name;
  if (kind == "attention") return needs_own_attention(view, kAttentionInputs);
  return kind == "attention_backward" && needs_own_attention(view, kAttentionBackwardInputs);
}

// FLOP/s of products by the dtype of their operands, and of attention.
double product_rate(const OpView& view, const DeviceModel& device) {
  const DType dtype = view.in(0).dtype;
  if (view.op.def->unit != Unit::kAttention || dtype == DType::kF64) return gemm_rate(device, dtype);
  if (runs_in_f32(view, device)) return device.attention_f32;
  return dtype == DType::kF16 || dtype == DType::kBF16 ? device.attention_bf16 : device.attention_f32;
}

bool multiplies(const OpView& view) {
  return view.op.def->unit == Unit::kGemm || view.op.def->unit == Unit::kAttention;
}

double work_of(const OpView& view, const Cost& cost) { return multiplies(view) ? cost.flops : cost.bytes; }

double arithmetic_rate(const OpView& view, const DeviceModel& device) {
  return multiplies(view) ? product_rate(view, device) : device.vector_flops;
}

double memory_rate(const OpView& view, const DeviceModel& device) {
  const bool of_host = view.op.def->unit == Unit::kHost && device.host_memory_bandwidth > 0;
  return of_host ? device.host_memory_bandwidth : device.memory_bandwidth;
}

double transfer_seconds(double bytes, const RateCurve& measured, double otherwise) {
  return bytes / (measured.empty() ? otherwise : rate_at(measured, bytes));
}

double link_seconds(const OpView& view, double bytes, const DeviceModel& device) {
  if (bytes == 0) return 0;
  if (view.op.def->unit == Unit::kCopy)
    return copy_seconds(view.in(0).space, view.out(0).space, bytes, device);
  return device.link_latency + gather_seconds(bytes, device);
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

bool draws_numbers(const OpView& view) {
  return view.attributes().has("p") && view.attributes().real("p") > 0;
}

std::string key_of(std::string_view kind, DType dtype, bool draws) {
  return fmt::format("{} {}{}", kind, name_of(dtype), draws ? " dropout" : "");
}

// The rates of that kind for this op, or of the nearest that was measured: f16 runs as bf16 does, and what
// draws random numbers nearly as what does not.
const RateCurve* rates_of_kind(std::string_view kind, const OpView& view, const DeviceModel& device) {
  const DType own = dtype_of(view),
              dtype = own != DType::kF64 && runs_in_f32(view, device) ? DType::kF32 : own;
  const DType alike = dtype == DType::kF16 ? DType::kBF16 : dtype;
  for (const bool draws : {draws_numbers(view), false})
    for (const DType d : {dtype, alike})
      if (const auto found = device.kernels.find(key_of(kind, d, draws)); found != device.kernels.end())
        return &found->second;
  return nullptr;
}

const RateCurve* measured_rates(const OpView& view, const DeviceModel& device) {
  if (device.kernels.empty()) return nullptr;
  const OpDef& def = *view.op.def;
  const RateCurve* own = rates_of_kind(def.name, view, device);
  return own || def.measured_as.empty() ? own : rates_of_kind(def.measured_as, view, device);
}

double measured_multiple(const OpView& view, const DeviceModel& device) {
  if (device.measured.empty()) return 1;
  const auto found = device.measured.find(kernel_use(view).key);
  return found == device.measured.end() ? 1 : found->second;
}

// A value on the device as an op finds it, and the op that used it last.
struct MemoryUse {
  std::size_t op = 0, last_op = 0;
  ValueId value = kNone;
  bool writes = false, last_writes = false;
  bool same_step = false;  // false: the last use was in the step before
  double bytes = 0;
  double touched = 0;  // bytes since the last use, and these
};

// Those of a step which others like it came before.
template <typename Visit>
void visit_memory_uses(const Graph& graph, const Visit& visit) {
  struct Last {
    std::size_t op = 0;
    double touched = 0;  // by all, up to and with this use
    bool writes = false, counts = false;
  };
  const std::vector<Op>& ops = graph.ops();
  std::vector<Last> last(graph.values().size());
  double touched = 0;
  const auto use = [&](std::size_t id, ValueId v, bool writes, bool counts) {
    if (v == kNone || graph.value(v).space != MemorySpace::kDevice) return;
    const auto bytes = static_cast<double>(graph.value(v).bytes());
    const Last& before = last[v];
    if (counts)
      visit(MemoryUse{id, before.op, v, writes, before.writes, before.counts, bytes,
                      touched - before.touched + bytes});
    touched += bytes;
    last[v] = {id, touched, writes, counts};
  };
  for (const bool counts : {false, true})  // the first round is the step before
    for (std::size_t id = 0; id < ops.size(); ++id) {
      for (ValueId v : ops[id].inputs) use(id, v, false, counts);
      for (ValueId v : ops[id].outputs) use(id, v, true, counts);
    }
}

// Of a table only some rows are touched.
void scale_to_touched(const Graph& graph, std::vector<double>& seconds) {
  for (std::size_t id = 0; id < seconds.size(); ++id) {
    const Op& op = graph.ops()[id];
    double operands = 0;
    for (const auto* list : {&op.inputs, &op.outputs})
      for (ValueId v : *list)
        if (v != kNone && graph.value(v).space == MemorySpace::kDevice)
          operands += static_cast<double>(graph.value(v).bytes());
    if (const double bytes = cost_of({graph, op}).bytes; bytes < operands) seconds[id] *= bytes / operands;
  }
}

double best_rate_from(const RateCurve& curve, double amount) {
  double best = rate_at(curve, amount);
  for (const RatePoint& point : curve)
    if (point.amount > amount) best = std::max(best, point.rate);
  return best;
}

// Whether no plan brings the two uses nearer to each other: what is made and read again within one phase. What goes to the
// host or the disk goes at once when it is made, and its copy is as far from the next use as it was itself.
bool stays_as_far(const Graph& graph, const MemoryUse& use) {
  const Value& value = graph.value(use.value);
  if (!use.same_step || value.persistent || value.accumulator || value.producer == kNone) return false;
  const Phase phase = graph.ops()[use.op].phase;
  return phase != Phase::kOptimizer && graph.ops()[use.last_op].phase == phase &&
         graph.op(value.producer).phase == phase;
}

// By value: what recomputation may read too.
std::vector<char> read_in_forward(const Graph& graph) {
  std::vector<char> read(graph.values().size(), 0);
  for (const Op& op : graph.ops())
    for (ValueId v : op.inputs)
      if (v != kNone && op.phase == Phase::kForward) read[v] = 1;
  return read;
}

void no_less_than_op_seconds(const Graph& graph, const DeviceModel& device, std::vector<double>& seconds) {
  for (std::size_t id = 0; id < seconds.size(); ++id) {
    const Op& op = graph.ops()[id];
    seconds[id] =
        std::max(measured_multiple({graph, op}, device) * seconds[id], op_seconds(graph, op, device));
  }
}

}  // namespace

double copy_seconds(MemorySpace from, MemorySpace to, double bytes, const DeviceModel& device) {
  if (to == MemorySpace::kDisk)
    return transfer_seconds(bytes, device.disk_writes, device.disk_write_bandwidth);
  if (from == MemorySpace::kDisk)
    return transfer_seconds(bytes, device.disk_reads, device.disk_read_bandwidth);
  return transfer_seconds(bytes, device.copies,
                          to == MemorySpace::kHost ? device.to_host_bandwidth : device.to_device_bandwidth);
}

double gather_seconds(double bytes, const DeviceModel& device) {
  return transfer_seconds(bytes, device.collectives, device.link_bandwidth);
}

KernelUse kernel_use(const OpView& view) {
  const Cost cost = cost_of(view);
  const double work = work_of(view, cost);
  return {key_of(view.op.def->name, dtype_of(view), draws_numbers(view)), work / cost.pieces, work};
}

double op_seconds(const Graph& graph, const Op& op, const DeviceModel& device) {
  if (op.def->names_alone) return 0;
  const OpView view{graph, op};
  const Cost cost = cost_of(view);
  const double work = work_of(view, cost);
  const RateCurve* rates = work > 0 ? measured_rates(view, device) : nullptr;
  const double here =
      rates ? work / rate_at(*rates, work / cost.pieces)
            : std::max(cost.flops / arithmetic_rate(view, device), cost.bytes / memory_rate(view, device));
  return device.launch_overhead +
         measured_multiple(view, device) * (std::max(here, link_seconds(view, cost.link_bytes, device)) +
                                            cost.exchanges * device.link_latency);
}

std::vector<double> memory_seconds(const Graph& graph, const DeviceModel& device) {
  std::vector<double> seconds(graph.ops().size(), 0.0);
  if (device.memory_levels.empty()) return seconds;
  visit_memory_uses(graph, [&](const MemoryUse& use) {
    const double took = use.bytes / rate_at(device.memory_levels, use.touched);
    if (!use.writes) seconds[use.op] += took;
    if (use.last_writes) seconds[use.last_op] += took;
  });
  scale_to_touched(graph, seconds);
  return seconds;
}

LeastDurations least_durations(const Graph& graph, const std::vector<char>& may_leave,
                               const DeviceModel& device) {
  LeastDurations least{.first = std::vector<double>(graph.ops().size(), 0.0), .again = {}};
  least.again = least.first;
  const double fastest = device.memory_levels.empty() ? 0 : best_rate_from(device.memory_levels, 0);
  if (fastest > 0)
    visit_memory_uses(graph, [&](const MemoryUse& use) {
      const double least_anywhere = use.bytes / fastest;
      if (!use.writes) least.again[use.op] += least_anywhere;
      if (use.last_writes) least.again[use.last_op] += least_anywhere;
      const double here = stays_as_far(graph, use)
                              ? use.bytes / best_rate_from(device.memory_levels, use.touched)
                              : least_anywhere;
      if (!use.writes) least.first[use.op] += here;
      if (use.last_writes) least.first[use.last_op] += may_leave[use.value] ? least_anywhere : here;
    });
  for (std::vector<double>* seconds : {&least.first, &least.again}) {
    scale_to_touched(graph, *seconds);
    no_less_than_op_seconds(graph, device, *seconds);
  }
  return least;
}

double least_optimizer_seconds(const Graph& graph, const DeviceModel& device) {
  const std::vector<Op>& ops = graph.ops();
  const auto in_optimizer = [&](std::size_t id) { return ops[id].phase == Phase::kOptimizer; };
  std::vector<double> seconds(ops.size(), 0.0);
  if (!device.memory_levels.empty()) {
    const std::vector<char> forward = read_in_forward(graph);
    const double fastest = best_rate_from(device.memory_levels, 0);
    visit_memory_uses(graph, [&](const MemoryUse& use) {
      const double here = use.bytes / best_rate_from(device.memory_levels, use.touched);
      if (!use.writes && in_optimizer(use.op))
        seconds[use.op] += forward[use.value] ? use.bytes / fastest : here;
      if (use.last_writes && in_optimizer(use.last_op)) seconds[use.last_op] += here;
    });
    scale_to_touched(graph, seconds);
  }
  no_less_than_op_seconds(graph, device, seconds);
  double sum = 0;
  for (std::size_t id = 0; id < ops.size(); ++id)
    if (in_optimizer(id) && ops[id].stream == StreamId::kCompute) sum += seconds[id];
  return sum;
}

std::vector<std::string> kinds_without_rates(const Graph& graph, const DeviceModel& device) {
  constexpr double kMatters = 0.05;  // of the time of all ops
  std::map<std::string, double> without;
  double all = 0, unknown = 0;
  if (device.kernels.empty() || is_preset(device)) return {};
  for (const Op& op : graph.ops()) {
    const OpView view{graph, op};
    const double seconds = op_seconds(graph, op, device);
    all += seconds;
    const bool moves = op.def->unit == Unit::kCollective || op.def->unit == Unit::kCopy;
    if (moves || work_of(view, cost_of(view)) <= 0 || op.stream != StreamId::kCompute ||
        rates_of_kind(op.def->name, view, device))
      continue;
    without[op.def->name] += seconds;
    unknown += seconds;
  }
  std::vector<std::string> kinds;
  if (unknown > kMatters * all)
    for (const auto& [kind, seconds] : without) kinds.push_back(kind);
  return kinds;
}

std::vector<double> op_durations(const Graph& graph, const DeviceModel& device) {
  std::vector<double> durations = memory_seconds(graph, device);
  no_less_than_op_seconds(graph, device, durations);
  return durations;
}

}  // namespace recollect
