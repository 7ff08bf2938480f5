#include "launch/doctor/calibrate.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>
#include <boost/program_options.hpp>

#include "checkpointing/device_file.h"
#include "comm/local.h"
#include "engine/core/arena.h"
#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "engine/io/disk_store.h"
#include "engine/io/files.h"
#include "engine/io/output_file.h"
#include "engine/io/standard_output.h"
#include "engine/runtime/cuda/device.h"
#include "launch/doctor/measure_gpu.h"
#include "launch/doctor/measure_memory.h"
#include "launch/doctor/measure_ops.h"
#include "launch/doctor/rounds.h"
#include "launch/program/recorded.h"
#include "launch/ranks/cores.h"
#include "launch/train/busy_cores.h"

namespace recollect {

namespace {

constexpr double kSecondsEach = 0.1;         // for one measurement outside of training steps
constexpr double kTooFastToMeasure = 1e-12;  // seconds
constexpr double kMostTouched = 256 << 20, kMostCopied = 64 << 20;  // bytes
constexpr int kSums = 20;                                           // all-reduces of each size

// Measures all-reduces between two rank threads.
void measure_link_of_threads(DeviceModel& device) {
  LocalGroup group(2);
  std::thread other([&] {
    DeviceModel same;
    measure_link(*group.join(1), kSums, same);
  });
  measure_link(*group.join(0), kSums, device);
  other.join();
}

// The best rate of a kernel over all amounts, for the fields that hold one number.
double best_rate(const DeviceModel& device, const char* kernel) {
  const auto found = device.kernels.find(kernel);
  if (found == device.kernels.end()) return 0;
  double best = 0;
  for (const RatePoint& point : found->second) best = std::max(best, point.rate);
  return best;
}

void sum_up(DeviceModel& device) {
  device.gemm_f32 = best_rate(device, "linear f32");
  device.attention_f32 = best_rate(device, "attention f32");
  const auto or_else = [](double rate, double otherwise) { return rate > 0 ? rate : otherwise; };
  device.gemm_bf16 = or_else(best_rate(device, "linear bf16"), device.gemm_f32);
  device.attention_bf16 = or_else(best_rate(device, "attention bf16"), device.attention_f32);
  // Only the reference backend computes in double, and its speed does not matter.
  device.gemm_f64 = device.gemm_f32 / 2;
  constexpr double kGeluFlopsPerByte = 1.5;  // of the op's cost: 12 FLOPs for 8 bytes
  device.vector_flops = kGeluFlopsPerByte * best_rate(device, "bias_gelu f32");
  device.memory_bandwidth = device.memory_levels.back().rate;
  device.to_host_bandwidth = device.to_device_bandwidth = device.copies.back().rate;
}

DeviceModel measure_threads(int threads, double seconds, const DeviceModel& link) {
  omp_set_num_threads(threads);
  DeviceModel device = link;
  device.threads = threads;
  device.memory_levels = measure_memory_levels(kSecondsEach, kMostTouched);
  device.copies = measure_copies(kSecondsEach, kMostCopied);
  OpRates rates = measure_ops("fp32", threads, seconds / 2);
  device.launch_overhead = rates.overhead;
  device.kernels = std::move(rates.kernels);
  try {
    device.kernels.merge(measure_ops("bf16", threads, seconds / 2).kernels);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kConfiguration) throw;  // else: missing instructions
  }
  sum_up(device);
  return device;
}

}  // namespace

DeviceModel measure_device(const Calibration& calibration) {
  const int before = omp_get_max_threads();
  DeviceModel link{.name = "measured"};
  measure_link_of_threads(link);
  std::vector<DeviceModel> measured;
  for (const int threads : calibration.threads)
    measured.push_back(measure_threads(
        threads, calibration.seconds / static_cast<double>(calibration.threads.size()), link));
  omp_set_num_threads(before);
  DeviceModel device = std::move(measured.back());
  measured.pop_back();
  device.cores = usable_cores();
  device.fewer_threads = std::move(measured);
  return device;
}

bool measure_disk(const std::string& folder, DeviceModel& device) {
  // Sizes of values in a step: small ones measure the access time, large ones the bandwidth.
  constexpr std::size_t kSizes[] = {std::size_t{256} << 10, std::size_t{2} << 20, std::size_t{64} << 20};
  constexpr int kValues = 4;
  const std::size_t largest = kSizes[std::size(kSizes) - 1];
  DiskStore disk(folder);
  disk.open(kValues * largest);
  const Arena value(largest), ring(DiskStore::kRingBytes);
  device.disk_writes.clear();
  device.disk_reads.clear();
  for (const std::size_t bytes : kSizes) {
    const auto time = [&](auto access) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < kValues; ++i) access(static_cast<uint64_t>(i) * largest);
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      return RatePoint{static_cast<double>(bytes),
                       kValues * static_cast<double>(bytes) / std::max(seconds, kTooFastToMeasure)};
    };
    device.disk_writes.push_back(
        time([&](uint64_t at) { disk.write("a value", value.at(0), bytes, at, ring.at(0)); }));
    device.disk_reads.push_back(
        time([&](uint64_t at) { disk.read("a value", value.at(0), bytes, at, ring.at(0)); }));
  }
  device.disk_write_bandwidth = device.disk_writes.back().rate;
  device.disk_read_bandwidth = device.disk_reads.back().rate;
  return disk.direct();
}

std::string disturbance(const CoreTimes& before, const CoreTimes& after) {
  const std::optional<CoreContention> found = contention(before, after, 1);
  if (!found || !found->is_contested()) return "";
  return fmt::format(
      "other processes took the cores meanwhile, and this one stood {:.0f} % of its time without one: the "
      "rates are too low; measure again when the machine is idle",
      100 * found->waiting);
}

std::string unmeasured(const DeviceModel& device) {
  std::vector<std::string> open = {
      "collectives between processes or machines, since this is one process: an all-reduce between two of "
      "its "
      "threads stands for all of them"};
  if (device.disk_write_bandwidth == 0) open.emplace_back("the disk, since --disk FOLDER is not given");
  const bool has_bf16 = std::any_of(device.kernels.begin(), device.kernels.end(), [](const auto& kernel) {
    return kernel.first.find(" bf16") != std::string::npos;
  });
  if (!has_bf16) open.emplace_back("bf16, since this processor has no instructions for it");
  return fmt::format("not measured: {}", fmt::join(open, "; "));
}

namespace {

// "; load 0.3 on 2 cores", over the last minute, including this program.
std::string load_text() {
  const std::optional<MachineLoad> load = CoreClock().load();
  return load ? fmt::format("; load {:.1f} on {} cores", load->average, std::thread::hardware_concurrency())
              : "";
}

// Other programs make every rate too low.
void warn_if_busy() {
  double load = 0;
  const double cores = std::thread::hardware_concurrency();
  if (getloadavg(&load, 1) == 1 && load > cores / 2)
    fmt::print(
        stderr,
        "recollect: this machine is busy (load {:.1f} on {} cores): what is measured now is too slow\n", load,
        cores);
}

// Parses "1,4" to thread counts in ascending order. The default is one, half of the cores, and all of them.
std::vector<int> threads_to_measure(const std::string& text) {
  const int cores = usable_cores();
  std::vector<int> counts;
  if (text.empty()) counts = {1, cores / 2, cores};
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    int count = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), count);
    if (error != std::errc{} || end != word.data() + word.size() || count < 1 || count > cores)
      throw UsageError(
          fmt::format("--threads {}: expected counts from 1 to the {} cores, as in 1,2", text, cores));
    counts.push_back(count);
  }
  if (text.ends_with(',')) throw UsageError(fmt::format("--threads {}: a count is missing at the end", text));
  std::erase(counts, 0);
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

}  // namespace

namespace {

struct CalibrateWords {
  std::string out, disk, threads, backend = "cpu";
  double seconds = Calibration().seconds;

  OptionTable options();
};

OptionTable CalibrateWords::options() {
  namespace po = boost::program_options;
  OptionTable table;
  table.add_options()("out", po::value(&out)->value_name("FILE"),
                      "writes the rates to this file, which device.model then names; else they are printed")(
      "disk", po::value(&disk)->value_name("FOLDER"), "measures the disk of this folder too")(
      "backend", po::value(&backend)->value_name("cpu|cuda"), "what is measured; cpu where not given")(
      "threads", po::value(&threads)->value_name("N,N"),
      "of a rank, a measurement each; 1, half of the cores and all where not given")(
      "seconds", po::value(&seconds)->value_name("S"),
      "about what it may take, without the disk; 15 where not given");
  return table;
}

// `remarks` gets a line with the difference between the rounds and the load of the machine.
DeviceModel measure_undisturbed(const Calibration& calibration, std::string& remarks) {
  warn_if_busy();
  CoreClock cores;
  const std::optional<CoreTimes> before = cores.read();
  Spread spread;
  const Calibration round{calibration.threads, calibration.seconds / 2};
  DeviceModel device = measure_in_rounds([&] { return measure_device(round); }, spread);
  if (const std::optional<CoreTimes> after = cores.read(); before && after)
    if (const std::string said = disturbance(*before, *after); !said.empty())
      fmt::print(stderr, "recollect: {}\n", said);
  if (spread.typical > kUselessSpread)
    fmt::print(
        stderr,
        "recollect: {}: times that are predicted with these rates can be as far off; measure again when "
        "the machine is idle\n",
        spread_text(spread));
  remarks = spread_text(spread) + load_text() + "\n";
  return device;
}

}  // namespace

OptionTable calibrate_options() { return CalibrateWords().options(); }

void calibrate_command(const Words& words, std::unique_ptr<MpiEnvironment>&) {
  CalibrateWords given;
  if (!parse_options(words, given.options()).empty()) throw UsageError("calibrate takes no configuration");
  const auto& [out, disk, threads, backend, seconds] = given;
  if (backend != "cpu" && backend != "cuda")
    throw UsageError(fmt::format("--backend {}: expected cpu or cuda", printable(backend)));
  const bool gpu = backend == "cuda";
  if (gpu) cuda::device_count();  // throws an Error that names what is missing
  if (gpu && !threads.empty()) throw UsageError("--threads is of CPUs: a GPU has none");
  const Calibration calibration{threads_to_measure(threads), seconds};
  if (!(calibration.seconds > 0 && calibration.seconds <= 3600))
    throw UsageError("--seconds is more than 0 and at most 3600");
  check_output_files({{"--out", out, "a file of rates", "\nmemory_bandwidth: "}});
  if (!disk.empty() && !std::filesystem::is_directory(disk))
    throw Error(ExitCode::kStorage, fmt::format("--disk {}: there is no such folder", printable(disk)),
                "name one on the disk that is to be measured");
  if (!out.empty()) const ReplacementFile writable(out);  // fails before the measurement
  GpuMeasurement of_gpu;
  if (gpu) of_gpu = measure_gpu(GpuCalibration::of(seconds));
  std::string remarks = of_gpu.remarks;
  DeviceModel device = gpu ? of_gpu.device : measure_undisturbed(calibration, remarks);
  if (!disk.empty() && !measure_disk(disk, device))
    fmt::print(stderr,
               "recollect: {} takes no direct I/O: what is measured there is the system's page cache\n",
               disk);
  const std::string text = measured_line() + to_yaml(device);
  if (out.empty()) return put_text(stdout, text);
  write_text_file(out, text);
  fmt::print("wrote {}\n{}{}\n", printable(out), remarks, gpu ? "" : unmeasured(device));
}

}  // namespace recollect
