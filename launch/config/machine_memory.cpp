#include "launch/config/machine_memory.h"

#include <algorithm>

#include <fmt/format.h>

#include "comm/bootstrap.h"
#include "engine/core/error.h"
#include "engine/io/system_files.h"

namespace recollect {

namespace {

int64_t ranks_here(const Config& config) {
  const Config::Parallelism& p = config.parallelism;
  try {
    if (const auto launched = discover_ranks()) return int64_t{launched->local_size} * p.ranks_per_process;
  } catch (const Error&) {  // launchers that disagree: said elsewhere
  }
  return p.tensor_parallel_size * std::max<int64_t>(1, p.data_parallel_size);
}

}  // namespace

std::optional<MachineShare> machine_share(const Config& config) {
  if (config.device.backend == BackendKind::kCuda) return {};
  const std::optional<uint64_t> all = memory_of_machine(SystemFiles());
  if (!all) return {};
  const int64_t ranks = ranks_here(config);
  const auto mebibytes = static_cast<int64_t>(*all >> 20) * 9 / 10 / ranks;
  if (mebibytes == 0) return {};
  return MachineShare{mebibytes << 20, fmt::format("nine tenths of this machine's {:.2f} GiB{}",
                                                   static_cast<double>(*all) / (1 << 30),
                                                   ranks == 1 ? "" : fmt::format(" for {} ranks", ranks))};
}

std::string said_of_budget(const Config& config) {
  const auto from = config.derived.find(kMemoryBudget);
  if (from == config.derived.end()) return "";
  return fmt::format("{} is {:.2f} GiB: {}", kMemoryBudget,
                     static_cast<double>(config.activation_checkpointing.memory_budget) / (1 << 30),
                     from->second);
}

}  // namespace recollect
