#include "launch/doctor/measure_gpu.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "checkpointing/residency_ops.h"
#include "engine/core/error.h"
#include "engine/ops/ops.h"
#include "engine/runtime/executor.h"
#include "launch/config/read.h"
#include "launch/config/validate.h"
#include "launch/ranks/backend.h"

namespace recollect {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRuns = 6;  // after a warm-up; the best counts

Config on_gpu(bool tf32) {
  Config config = read_config_text(
      "calibration", "device: {backend: cuda}\ntraining: {max_steps: 1}\ndata: {format: random}\n", {});
  config.device.tf32 = tf32;
  resolve_world(config, 1);
  return config;
}

// Builds and times programs of a few ops on the device.
class GpuBench {
 public:
  explicit GpuBench(bool tf32 = false)
      : config_(on_gpu(tf32)), world_(make_self_communicator()), backend_(config_, *world_) {
    register_engine_ops(registry_);
    register_checkpointing_ops(registry_);
    backend_.kernels()(kernels_, nullptr);
    register_checkpointing_kernels(kernels_, [](std::string_view, StreamId) -> Communicator& {
      throw Error(ExitCode::kInternal, "calibration measures no gather");
    });
  }

  std::string device() const { return backend_.device().name(); }
  OpRegistry& registry() { return registry_; }

  static ValueId input(Graph& graph, Shape shape, DType dtype) {
    return graph.add_value({.name = fmt::format("input{}", graph.values().size()),
                            .shape = std::move(shape),
                            .dtype = dtype,
                            .category = Category::kInput,
                            .persistent = true});
  }
  OpId add(Graph& graph, const char* kind, std::vector<ValueId> inputs,
           StreamId stream = StreamId::kCompute) {
    return graph.add_op({.def = registry_.find(kind),
                         .name = fmt::format("{}{}", kind, graph.ops().size()),
                         .inputs = std::move(inputs),
                         .stream = stream});
  }

  // The best time of each op by the device's clocks.
  std::vector<double> seconds(Graph graph) {
    Program program = compile(std::move(graph), kernels_);
    ProgramMemory memory(backend_.device(), {&program});
    Executor executor(std::move(program), memory);
    executor.time_ops(true);
    std::vector<double> best(executor.program().graph.ops().size(), 1e30);
    for (int run = 0; run <= kRuns; ++run) {
      executor.run_micro_batch(RunState{});
      if (run == 0) continue;
      require(executor.times() != nullptr, "a GPU times its ops");
      const std::vector<RunTimes::OpSpan>& ops = executor.times()->ops;
      for (std::size_t i = 0; i < best.size(); ++i)
        best[i] = std::min(best[i], std::max(1e-9, ops[i].end - ops[i].begin));
    }
    return best;
  }

  // The time of a replayed graph by the host's clock.
  double replayed(Graph graph) {
    Program program = compile(std::move(graph), kernels_);
    ProgramMemory memory(backend_.device(), {&program});
    Executor executor(std::move(program), memory);
    double best = 1e30;
    for (int run = 0; run < 3 + 2 * kRuns; ++run) {
      const auto begin = Clock::now();
      executor.run_micro_batch(RunState{});
      if (run > 2) best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
    }
    return best;
  }

 private:
  OpRegistry registry_;
  KernelTable kernels_;
  Config config_;
  std::unique_ptr<Communicator> world_;
  Backend backend_;
};

double cost_bytes(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  return op.def->cost(OpView{graph, op}).bytes;
}

double stream_rate(GpuBench& bench, double bytes) {
  Graph graph;
  const Shape shape{static_cast<int64_t>(bytes) / 4};
  const ValueId a = GpuBench::input(graph, shape, DType::kF32),
                b = GpuBench::input(graph, shape, DType::kF32);
  const OpId id = bench.add(graph, "add", {a, b});
  const double moved = cost_bytes(graph, id);
  return moved / bench.seconds(std::move(graph))[0];
}

// The rate of a square matrix product with `rows` rows.
double product_rate(GpuBench& bench, int64_t rows, DType dtype) {
  Graph graph;
  const ValueId x = GpuBench::input(graph, {rows, rows}, dtype),
                w = GpuBench::input(graph, {rows, rows}, dtype);
  const Op& op = graph.op(bench.add(graph, "linear", {x, w}));
  const double flops = op.def->cost(OpView{graph, op}).flops;
  return flops / bench.seconds(std::move(graph))[0];
}

// Measures copies in each direction alone and in both at once: the second copy runs back while the third runs
// out.
void measure_copies(GpuBench& bench, double bytes, GpuMeasurement& measured) {
  const Shape shape{static_cast<int64_t>(bytes) / 4};
  const auto graph_of = [&](bool both) {
    Graph graph;
    const ValueId a = GpuBench::input(graph, shape, DType::kF32),
                  b = GpuBench::input(graph, shape, DType::kF32);
    const OpId out = bench.add(graph, "copy_to_host", {a}, StreamId::kDeviceToHost);
    bench.add(graph, "copy_to_device", {graph.op(out).outputs[0]}, StreamId::kHostToDevice);
    if (both) bench.add(graph, "copy_to_host", {b}, StreamId::kDeviceToHost);
    return graph;
  };
  const std::vector<double> alone = bench.seconds(graph_of(false)), both = bench.seconds(graph_of(true));
  measured.device.to_host_bandwidth = bytes / alone[0];
  measured.device.to_device_bandwidth = bytes / alone[1];
  measured.both_to_host = bytes / both[2];
  measured.both_to_device = bytes / both[1];
}

// The fixed time of an op in a replayed step, measured with many tiny ops.
double launch_cost(GpuBench& bench, int ops) {
  const auto graph_of = [&](int count) {
    Graph graph;
    const ValueId a = GpuBench::input(graph, {256}, DType::kF32),
                  b = GpuBench::input(graph, {256}, DType::kF32);
    for (int i = 0; i < count; ++i) bench.add(graph, "add", {a, b});
    return graph;
  };
  const double of_one = (bench.replayed(graph_of(ops)) - bench.replayed(graph_of(ops / 2))) / (ops - ops / 2);
  return std::max(1e-7, of_one);
}

double best_rate(const DeviceModel& device, const std::string& kernel) {
  double best = 0;
  if (const auto found = device.kernels.find(kernel); found != device.kernels.end())
    for (const RatePoint& point : found->second) best = std::max(best, point.rate);
  return best;
}

// Sets the fields that hold one number; those that were not measured get the preset's.
void sum_up(DeviceModel& device, std::vector<std::string>& open) {
  const DeviceModel preset = device_preset("h200");
  const auto take = [&](double DeviceModel::*member, const std::string& kernel, const char* what) {
    device.*member = best_rate(device, kernel);
    if (device.*member > 0) return;
    device.*member = preset.*member;
    open.emplace_back(what);
  };
  take(&DeviceModel::gemm_bf16, "linear bf16", "products in bf16");
  take(&DeviceModel::gemm_f32, "linear f32", "products in fp32");
  take(&DeviceModel::gemm_fp8, "linear_fp8 e4m3", "products in FP8");
  take(&DeviceModel::attention_bf16, "attention bf16", "attention in bf16");
  take(&DeviceModel::attention_f32, "attention f32", "attention in fp32");
  device.gemm_f64 = preset.gemm_f64;
  device.vector_flops = preset.vector_flops;
  device.link_bandwidth = preset.link_bandwidth;
  device.link_latency = preset.link_latency;
  device.host_memory_bandwidth = std::min(preset.host_memory_bandwidth, device.to_host_bandwidth);
  open.emplace_back("collectives between GPUs, since this is one");
  open.emplace_back("products in fp64");
}

}  // namespace

GpuCalibration GpuCalibration::of(double seconds) {
  const std::vector<StepSample> samples = {
      {2, 768, 12, 16384, 16, 1024, 0.0, 1, true}, {2, 256, 4, 1024, 8, 128, 0.0, 1},
      {1, 4096, 32, 16384, 1, 4096, 0.0, 1},       {1, 1600, 25, 4096, 8, 1024, 0.0, 1},
      {1, 1024, 16, 4096, 4, 512, 0.1, 1, true},   {1, 4096, 32, 1024, 1, 16384, 0.0, 1}};
  return {.steps = {.samples = samples,
                    .words = {"training.precision=bf16", "training.precision=fp32",
                              "training.precision=bf16 training.fp8=true",
                              "training.precision=fp32 device.tf32=true"},
                    .seconds = 0.8 * seconds}};
}

GpuMeasurement measure_gpu(const GpuCalibration& calibration) {
  GpuMeasurement measured;
  DeviceModel& device = measured.device;
  {
    GpuBench bench;
    device.name = "measured on " + bench.device();
    device.memory_bandwidth = stream_rate(bench, calibration.bytes);
    measure_copies(bench, calibration.bytes, measured);
    device.launch_overhead = launch_cost(bench, calibration.tiny_ops);
  }
  GpuRates rates = measure_ops_of_gpu(calibration.steps, device.launch_overhead);
  device.kernels = std::move(rates.kernels);
  std::vector<std::string> open;
  sum_up(device, open);
  for (const std::string& sample : rates.left_out)
    open.push_back("steps of " + sample + ", for want of time");
  measured.remarks =
      fmt::format("copies both ways at once: {:.1f} GB/s to the host, {:.1f} GB/s back\nnot measured: {}",
                  1e-9 * measured.both_to_host, 1e-9 * measured.both_to_device, fmt::join(open, "; "));
  return measured;
}

GpuRoof measure_gpu_roof(DType operands, bool tf32) {
  GpuBench bench(tf32);
  constexpr int64_t kRows = 8192;
  const bool wide = tf32 || operands == DType::kBF16 || operands == DType::kF16;
  return {.flops = product_rate(bench, wide ? kRows : kRows / 2, operands),
          .bandwidth = stream_rate(bench, 1 << 30)};
}

}  // namespace recollect
