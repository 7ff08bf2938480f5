#include "launch/calibrate.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <boost/program_options.hpp>

#include "checkpointing/residency_ops.h"
#include "comm/local.h"
#include "engine/io/files.h"
#include "engine/ops/ops.h"
#include "engine/runtime/executor.h"
#include "launch/device_file.h"

namespace recollect {

namespace {

constexpr int64_t kSide = 1024;              // of the matrices multiplied
constexpr int64_t kElements = 16 << 20;      // of the arrays streamed: more than caches hold
constexpr double kSecondsEach = 0.3;         // spent on one measurement
constexpr double kTooFastToMeasure = 1e-12;  // seconds

// The best of as many runs as fit the time, after one to warm up.
double best_seconds(const std::function<void()>& run) {
  using Clock = std::chrono::steady_clock;
  run();
  const auto start = Clock::now();
  double best = 1e30;
  while (std::chrono::duration<double>(Clock::now() - start).count() < kSecondsEach) {
    const auto begin = Clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return std::max(best, kTooFastToMeasure);
}

struct Input {
  Shape shape;
  DType dtype = DType::kF32;
};

struct Measured {
  double seconds = 0;
  Cost cost;
};

// One op, as a program of its own. A program that runs nothing else tells what starting it costs.
class Bench {
 public:
  Bench() {
    register_engine_ops(registry_);
    register_checkpointing_ops(registry_);
    cpu::register_kernels(kernels_, nullptr);
    register_checkpointing_kernels(kernels_, [](std::string_view, StreamId) -> Communicator& {
      throw Error(ExitCode::kInternal, "calibration measures no gather");
    });
  }

  Measured measure(const char* kind, const Attributes& attributes, const std::vector<Input>& inputs,
                   StreamId stream = StreamId::kCompute) {
    Graph graph;
    Op op{.def = registry_.find(kind), .name = kind, .attributes = attributes, .stream = stream};
    for (const Input& input : inputs)
      op.inputs.push_back(graph.add_value({.name = "input" + std::to_string(op.inputs.size()),
                                           .shape = input.shape,
                                           .dtype = input.dtype,
                                           .category = Category::kInput,
                                           .persistent = true}));
    const OpId id = graph.add_op(std::move(op));
    const Cost cost = graph.op(id).def->cost(OpView{graph, graph.op(id)});
    const std::unique_ptr<Device> device = make_cpu_device();
    Executor executor(compile(std::move(graph), kernels_), *device);
    const RunState state;
    return {best_seconds([&] { executor.run_micro_batch(state); }), cost};
  }

 private:
  OpRegistry registry_;
  KernelTable kernels_;
};

double gemm_rate(Bench& bench, DType dtype) {
  const Measured m = bench.measure("linear", {}, {{{kSide, kSide}, dtype}, {{kSide, kSide}, dtype}});
  return m.cost.flops / m.seconds;
}

double attention_rate(Bench& bench, DType dtype) {
  constexpr int64_t kHeads = 8, kHeadSize = 64, kSequence = 512;
  const Attributes attributes{
      {"heads", kHeads},          {"head_size", kHeadSize}, {"sequence_length", kSequence},
      {"first_head", int64_t{0}}, {"all_heads", kHeads},    {"p", 0.0},
      {"layer", int64_t{0}},      {"site", int64_t{0}}};
  const Measured m =
      bench.measure("attention", attributes, {{{2 * kSequence, 3 * kHeads * kHeadSize}, dtype}});
  return m.cost.flops / m.seconds;
}

// bytes/s and seconds of an all-reduce between two rank threads.
std::pair<double, double> link() {
  LocalGroup group(2);
  std::array<double, 2> large{}, small{};
  const auto rank = [&](int r) {
    const std::unique_ptr<Communicator> world = group.join(r);
    std::vector<float> data(4 << 20);
    const auto time = [&](int64_t elements, int repeats) {
      world->barrier();
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < repeats; ++i)
        world->all_reduce({data.data(), {elements}, DType::kF32}, ReduceOp::kSum);
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / repeats;
    };
    time(static_cast<int64_t>(data.size()), 2);
    large[r] = time(static_cast<int64_t>(data.size()), 8);
    small[r] = time(1, 500);
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  // Of two ranks each sends as many bytes as the tensor has: half of it twice.
  return {static_cast<double>((4 << 20) * sizeof(float)) / (large[0] - std::min(small[0], large[0] / 2)),
          small[0]};
}

}  // namespace

DeviceModel measure_device() {
  Bench bench;
  DeviceModel device{.name = "measured"};
  device.launch_overhead = bench.measure("add", {}, {{{16}}, {{16}}}).seconds;
  device.gemm_f32 = gemm_rate(bench, DType::kF32);
  device.gemm_bf16 = gemm_rate(bench, DType::kBF16);
  // Only the reference backend computes in double, and no model of it is of use.
  device.gemm_f64 = device.gemm_f32 / 2;
  device.attention_f32 = attention_rate(bench, DType::kF32);
  device.attention_bf16 = attention_rate(bench, DType::kBF16);
  const Measured gelu =
      bench.measure("bias_gelu", {{"form", std::string("tanh")}}, {{{64, kSide}}, {{kSide}}});
  device.vector_flops = gelu.cost.flops / gelu.seconds;
  const Measured add = bench.measure("add", {}, {{{kElements}}, {{kElements}}});
  device.memory_bandwidth = add.cost.bytes / add.seconds;
  const Measured copy = bench.measure("copy_to_host", {}, {{{kElements}}}, StreamId::kDeviceToHost);
  device.to_host_bandwidth = device.to_device_bandwidth = copy.cost.link_bytes / copy.seconds;
  std::tie(device.link_bandwidth, device.link_latency) = link();
  return device;
}

bool measure_disk(const std::string& folder, DeviceModel& device) {
  constexpr std::size_t kValue = std::size_t{64} << 20;
  constexpr int kValues = 4;
  DiskStore disk(folder);
  disk.open(kValues * kValue);
  const Arena value(kValue), ring(DiskStore::kRingBytes);
  for (int i = 0; i < kValues; ++i) disk.write("a value", value.at(0), kValue, i * kValue, ring.at(0));
  for (int i = 0; i < kValues; ++i) disk.read("a value", value.at(0), kValue, i * kValue, ring.at(0));
  device.disk_write_bandwidth = disk.written().bytes_per_second();
  device.disk_read_bandwidth = disk.read().bytes_per_second();
  return disk.direct();
}

namespace {

// What other programs take is missing from every rate.
void warn_if_busy() {
  double load = 0;
  const double cores = std::thread::hardware_concurrency();
  if (getloadavg(&load, 1) == 1 && load > cores / 2)
    fmt::print(
        stderr,
        "recollect: this machine is busy (load {:.1f} on {} cores): what is measured now is too slow\n", load,
        cores);
}

}  // namespace

void calibrate_command(const Words& words, std::unique_ptr<MpiEnvironment>&) {
  namespace options = boost::program_options;
  std::string out, disk;
  options::options_description own;
  own.add_options()("out", options::value(&out))("disk", options::value(&disk));
  if (!parse_options(words, own).empty())
    throw Error(ExitCode::kConfiguration, "calibrate takes no configuration", usage());
  warn_if_busy();
  DeviceModel device = measure_device();
  if (!disk.empty() && !measure_disk(disk, device))
    fmt::print(stderr,
               "recollect: {} takes no direct I/O: what is measured there is the system's page cache\n",
               disk);
  const std::string text = to_yaml(device);
  fmt::print("{}", text);
  if (!out.empty()) write_text_file(out, text);
}

}  // namespace recollect
