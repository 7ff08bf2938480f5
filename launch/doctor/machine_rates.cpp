#include "launch/doctor/machine_rates.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <omp.h>

#include "checkpointing/device_file.h"
#include "comm/agree.h"
#include "comm/local.h"
#include "engine/core/freed_memory.h"
#include "engine/core/hash.h"
#include "engine/io/core_times.h"
#include "engine/io/file_text.h"
#include "engine/io/files.h"
#include "engine/io/folders.h"
#include "engine/io/yaml_document.h"
#include "launch/config/read.h"
#include "launch/doctor/measure_memory.h"
#include "launch/doctor/measure_ops.h"
#include "launch/program/recorded.h"
#include "launch/program/resident_memory.h"
#include "launch/ranks/cores.h"
#include "launch/ranks/program_identity.h"
#include "launch/ranks/world.h"
#include "launch/train/busy_cores.h"

namespace recollect {

namespace {

namespace fs = std::filesystem;

constexpr double kSeconds = 0.6;     // for steps, without memory and link
constexpr double kDisturbed = 0.25;  // above it, predictions are off by more than 30 %
constexpr std::size_t kMostKept = 64;
constexpr char kUnknown = '-';  // marks the reason why there are no rates

// One line with everything that rates depend on.
std::string conditions(const Config& config, const std::string& communicator, int ranks, int threads) {
  Config::Model model = config.model;
  model.config.clear();
  model.pretrained.clear();
  std::string text = measured_line();
  text.pop_back();
  for (const auto& [what, is] : program_identity(config.device.isa))
    text += fmt::format(" | {} = {}", what, is);
  std::string of = dump_model(model);
  of.pop_back();
  return text + fmt::format(" | {} cores, {} ranks ({}), {} threads | {} samples of {}, {}, {} | {}",
                            usable_cores(), ranks, communicator, threads, config.training.micro_batch_size,
                            config.data.sequence_length, name_of(config.training.precision),
                            config.optimizer.name, of);
}

std::string file_of(const std::string& folder, const std::string& line) {
  return fmt::format("{}/rates-{:016x}.yaml", folder, hash_bytes(line.data(), line.size()));
}

// The stored rates, or "" if there are none.
std::string kept_rates(const std::string& path, const std::string& line) {
  std::string text;
  if (!read_file_text(path, kMaxDocumentBytes, text).empty() || !text.starts_with(line + "\n")) return "";
  try {
    device_model_of(path, text);
  } catch (const Error&) {
    return "";
  }
  return text;
}

// Stores the rates. If there are many files, the oldest are removed.
void keep_rates(const std::string& folder, const std::string& path, const std::string& text) {
  write_text_file(path, text);
  std::vector<std::pair<fs::file_time_type, fs::path>> kept;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("rates-"))
      kept.emplace_back(entry.last_write_time(), entry.path());
  std::sort(kept.begin(), kept.end(), std::greater<>());
  for (std::size_t i = kMostKept; i < kept.size(); ++i) fs::remove(kept[i].second);
}

double fastest_rate(const DeviceModel& device, const std::string& kernel) {
  double best = 0;
  if (const auto found = device.kernels.find(kernel); found != device.kernels.end())
    for (const RatePoint& point : found->second) best = std::max(best, point.rate);
  return best;
}

// Sets the numbers for ops without measured rates: the preset's, scaled by the measured rate of products in
// this precision.
void set_numbers(DeviceModel& device, Precision precision) {
  const DeviceModel preset = device_preset("cpu");
  const bool bf16 = precision == Precision::kBF16;
  const double products = fastest_rate(device, bf16 ? "linear bf16" : "linear f32"),
               factor = products > 0 ? products / (bf16 ? preset.gemm_bf16 : preset.gemm_f32) : 1;
  for (double DeviceModel::*rate :
       {&DeviceModel::gemm_f32, &DeviceModel::gemm_bf16, &DeviceModel::gemm_f64, &DeviceModel::attention_f32,
        &DeviceModel::attention_bf16, &DeviceModel::vector_flops})
    device.*rate = factor * preset.*rate;
  device.memory_bandwidth = device.memory_levels.back().rate;
  device.to_host_bandwidth = device.to_device_bandwidth = device.copies.back().rate;
}

// Why a measurement is not valid; "" if nothing disturbed it.
std::string busy(const std::optional<CoreTimes>& before, const std::optional<CoreTimes>& after, int processes,
                 double disturbed) {
  if (before && after)
    if (const auto found = contention(*before, *after, processes); found && found->is_contested())
      return fmt::format(
          "this machine is busy: other processes took {:.0f} % of the time that this one wanted",
          100 * found->waiting);
  if (disturbed > kDisturbed)
    return fmt::format("this machine is busy: its steps take {:.0f} % longer than undisturbed ones",
                       100 * disturbed);
  return "";
}

// Measures the rates of this rank while the others measure too. Returns them as text, or kUnknown and the
// reason.
std::string measure_rates(const Config& config, Communicator& world, int threads, int processes) {
  constexpr double kSecondsEach = 0.01, kMostTouched = 64 << 20, kMostCopied = 8 << 20;
  constexpr int kSums = 3;
  DeviceModel device = device_preset("cpu");
  device.name = kRatesOfMachine;
  device.threads = threads;
  if (world.size() > 1) measure_link(world, kSums, device);
  try {
    CoreClock cores;
    const std::optional<CoreTimes> before = cores.read();
    device.memory_levels = measure_memory_levels(kSecondsEach, kMostTouched);
    device.copies = measure_copies(kSecondsEach, kMostCopied);
    OpRates rates = measure_ops_of(config, threads, kSeconds, device);
    if (rates.kernels.empty()) return fmt::format("{}this model cannot be measured in a second", kUnknown);
    const std::string why = busy(before, cores.read(), processes, rates.disturbed);
    if (!why.empty()) return kUnknown + why;
    device.kernels = std::move(rates.kernels);
    device.launch_overhead = rates.overhead;
  } catch (const std::exception& error) {
    return kUnknown + std::string(error.what());
  }
  set_numbers(device, config.training.precision);
  return to_yaml(device);
}

bool wants_rates(const Config& config) {
  return config.device.backend == BackendKind::kCpu &&
         !tells_times(read_device_model(config.device.model).name) && config.training.max_steps > 0;
}

// Runs on the first rank. Returns stored rates, or "" if they must be measured, or kUnknown and the reason.
std::string find_rates(const std::string& path, const std::string& line, int ranks, int threads) {
  if (path.empty()) return fmt::format("{}there is no folder to keep the rates of this machine in", kUnknown);
  if (ranks * threads > usable_cores())
    return fmt::format("{}{} ranks of {} threads take turns on {} cores", kUnknown, ranks, threads,
                       usable_cores());
  return kept_rates(path, line);
}

}  // namespace

std::string rates_folder() {
  const std::string folder = user_cache_folder();
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  return error ? "" : folder;
}

std::string learn_machine_rates(Config& config, Communicator& world) {
  if (!wants_rates(config)) return "";
  const int threads = omp_get_max_threads(), ranks = ranks_of_node(world.size());
  std::string folder, line, path, text;
  if (world.rank() == 0) {
    folder = rates_folder();
    line = conditions(config, world.name(), ranks, threads);
    path = folder.empty() ? "" : file_of(folder, line);
    text = find_rates(path, line, ranks, threads);
  }
  text = broadcast_text(std::move(text), 0, world);
  if (text.empty()) {
    const auto of_process = static_cast<int>(config.parallelism.ranks_per_process);
    text = measure_rates(config, world, threads, std::max(1, ranks / of_process));
    give_back_freed_memory();
    forget_peak_resident();  // the small models' peak
    if (world.rank() == 0 && text.front() != kUnknown) {
      text.insert(0, line + "\n");
      try {
        keep_rates(folder, path, text);
      } catch (const std::exception&) {  // the next run measures again
      }
    }
    text = broadcast_text(std::move(text), 0, world);
  }
  if (text.front() == kUnknown) return text.substr(1);
  DeviceModel device = device_model_of(kRatesOfMachine, text);
  device.spare_cores = std::max(0, usable_cores() / ranks - threads);
  config.device.of_machine = std::make_shared<const DeviceModel>(std::move(device));
  return "";
}

std::string learn_machine_rates(Config& config) {
  const auto ranks =
      static_cast<int>(config.parallelism.tensor_parallel_size * config.parallelism.data_parallel_size);
  const int before = omp_get_max_threads(), threads = threads_per_rank(config, ranks);
  if (!wants_rates(config)) return "";
  if (ranks * threads > usable_cores())  // do not start them: there may be thousands
    return find_rates(kRatesOfMachine, "", ranks, threads).substr(1);
  LocalGroup group(ranks);
  std::vector<Config> configs(static_cast<std::size_t>(ranks), config);
  for (Config& one : configs) one.parallelism.ranks_per_process = ranks;
  std::vector<std::thread> others;
  std::string why;
  const auto learn = [&](int rank) {
    omp_set_num_threads(threads);
    const std::unique_ptr<Communicator> world = group.join(rank);
    std::string said = learn_machine_rates(configs[static_cast<std::size_t>(rank)], *world);
    if (rank == 0) why = std::move(said);
  };
  for (int rank = 1; rank < ranks; ++rank) others.emplace_back(learn, rank);
  learn(0);
  for (std::thread& thread : others) thread.join();
  omp_set_num_threads(before);
  config.device.of_machine = configs.front().device.of_machine;
  return why;
}

}  // namespace recollect
