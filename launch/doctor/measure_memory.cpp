#include "launch/doctor/measure_memory.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpointing/residency_ops.h"
#include "engine/core/error.h"
#include "engine/ops/cpu_level.h"
#include "engine/ops/ops.h"
#include "engine/runtime/executor.h"

namespace recollect {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kShortest = 1e-12;  // seconds, instead of zero
constexpr double kMebibyte = 1 << 20;
// Bytes of three arrays, from the size of one core's cache to beyond all caches; of a copy; and of an
// all-reduce.
constexpr double kTouched[] = {0.25 * kMebibyte, kMebibyte,      4 * kMebibyte,
                               16 * kMebibyte,   64 * kMebibyte, 256 * kMebibyte};
constexpr double kCopied[] = {kMebibyte, 8 * kMebibyte, 64 * kMebibyte};
constexpr double kSummed[] = {kMebibyte / 64, kMebibyte / 4, 4 * kMebibyte, 16 * kMebibyte};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The best time of as many runs as fit into `seconds`, after a warm-up.
double best_seconds(double seconds, const std::function<void()>& run) {
  run();
  const auto start = Clock::now();
  double best = 1e30;
  while (seconds_since(start) < seconds) {
    const auto begin = Clock::now();
    run();
    best = std::min(best, seconds_since(begin));
  }
  return std::max(best, kShortest);
}

struct Measured {
  double seconds = 0;
  Cost cost;
};

// Builds and times programs of one op on vectors of floats.
class Bench {
 public:
  explicit Bench(double seconds) : seconds_(seconds) {
    register_engine_ops(registry_);
    register_checkpointing_ops(registry_);
    cpu_level().register_kernels(kernels_, nullptr);
    register_checkpointing_kernels(kernels_, [](std::string_view, StreamId) -> Communicator& {
      throw Error(ExitCode::kInternal, "calibration measures no gather");
    });
  }

  Measured measure(const char* kind, int inputs, double bytes, StreamId stream = StreamId::kCompute) {
    Graph graph;
    Op op{.def = registry_.find(kind), .name = kind, .attributes = {}, .stream = stream};
    for (int i = 0; i < inputs; ++i)
      op.inputs.push_back(graph.add_value({.name = "input" + std::to_string(i),
                                           .shape = {static_cast<int64_t>(bytes / sizeof(float))},
                                           .dtype = DType::kF32,
                                           .category = Category::kInput,
                                           .persistent = true}));
    const OpId id = graph.add_op(std::move(op));
    const Cost cost = graph.op(id).def->cost(OpView{graph, graph.op(id)});
    const std::unique_ptr<Device> device = make_cpu_device();
    Program program = compile(std::move(graph), kernels_);
    ProgramMemory memory(*device, {&program});
    Executor executor(std::move(program), memory);
    const RunState state;
    return {best_seconds(seconds_, [&] { executor.run_micro_batch(state); }), cost};
  }

 private:
  double seconds_;
  OpRegistry registry_;
  KernelTable kernels_;
};

}  // namespace

RateCurve measure_memory_levels(double seconds_each, double most) {
  Bench bench(seconds_each);
  RateCurve curve;
  for (const double bytes : kTouched) {
    if (bytes > most) break;
    const Measured add = bench.measure("add", 2, bytes / 3);
    curve.push_back({bytes, add.cost.bytes / add.seconds});
  }
  return curve;
}

RateCurve measure_copies(double seconds_each, double most) {
  Bench bench(seconds_each);
  RateCurve curve;
  for (const double bytes : kCopied) {
    if (bytes > most) break;
    const Measured copy = bench.measure("copy_to_host", 1, bytes, StreamId::kDeviceToHost);
    curve.push_back({bytes, copy.cost.link_bytes / copy.seconds});
  }
  return curve;
}

void measure_link(Communicator& world, int repeats, DeviceModel& device) {
  constexpr int kOfLatency = 25;  // times `repeats`
  std::vector<float> data(static_cast<std::size_t>(kSummed[std::size(kSummed) - 1]) / sizeof(float));
  const auto time = [&](double bytes, int count) {
    double best = 1e30;
    for (int i = 0; i <= count; ++i) {  // the first is a warm-up
      world.barrier();
      const auto begin = Clock::now();
      world.all_reduce({data.data(), {static_cast<int64_t>(bytes / sizeof(float))}, DType::kF32},
                       ReduceOp::kSum);
      if (i > 0) best = std::min(best, seconds_since(begin));
    }
    return best;
  };
  const auto ranks = static_cast<double>(world.size());
  const double sent = 2 * (ranks - 1) / ranks;  // by each rank, as a multiple of the tensor
  device.link_latency = time(sizeof(float), kOfLatency * repeats);
  device.collectives.clear();
  for (const double bytes : kSummed) {
    const double seconds = time(bytes, repeats);
    device.collectives.push_back(
        {sent * bytes, sent * bytes / std::max(seconds - device.link_latency, seconds / 2)});
  }
  device.link_bandwidth = device.collectives.back().rate;
}

}  // namespace recollect
