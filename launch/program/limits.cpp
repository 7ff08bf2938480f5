#include "launch/program/limits.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include "engine/core/byte_count.h"
#include "engine/core/error.h"
#include "engine/io/node.h"
#include "engine/io/system_files.h"
#include "launch/program/memory_advice.h"
#include "parallel/weights.h"

namespace recollect {

std::optional<DeviceShare> share_of(const Device& device, uint64_t needed, Communicator& world) {
  struct Use {
    char hardware[64] = {};
    uint64_t needed = 0;
  };
  const std::optional<Device::Memory> memory = device.memory();
  if (!memory) return {};
  Use mine{.needed = needed};
  const std::string hardware = device.hardware();
  require(hardware.size() < sizeof mine.hardware, "a device's name is too long");
  std::memcpy(mine.hardware, hardware.data(), hardware.size());
  std::vector<Use> all(static_cast<std::size_t>(world.size()));
  constexpr auto kBytes = static_cast<int64_t>(sizeof mine);
  world.all_gather({&mine, {kBytes}, DType::kU8}, {all.data(), {kBytes * world.size()}, DType::kU8});
  DeviceShare share{.free = memory->free, .needed = 0, .ranks = 0};
  for (const Use& use : all) {
    if (std::memcmp(use.hardware, mine.hardware, sizeof mine.hardware) != 0) continue;
    share.needed += use.needed;
    ++share.ranks;
  }
  return share;
}

MemoryGroup memory_group() {
  const SystemFiles files;
  const std::string name = host_name() + files.read("/proc/self/cgroup").value_or("");
  return {.name = std::hash<std::string>()(name), .left = memory_left(files)};
}

MemoryGroup whole_machine() {
  const SystemFiles files;
  std::optional<uint64_t> memory = memory_of_machine(files);
  const std::optional<uint64_t> swap = meminfo(files.read("/proc/meminfo").value_or(""), "SwapTotal");
  if (memory && swap) *memory += *swap;
  return {.name = std::hash<std::string>()(host_name()), .left = memory};
}

std::optional<DeviceShare> share_of_group(const MemoryGroup& group, uint64_t needed, Communicator& world) {
  struct Use {
    uint64_t group = 0, needed = 0;
  };
  Use mine{group.name, needed};
  std::vector<Use> all(static_cast<std::size_t>(world.size()));
  constexpr auto kBytes = static_cast<int64_t>(sizeof mine);
  world.all_gather({&mine, {kBytes}, DType::kU8}, {all.data(), {kBytes * world.size()}, DType::kU8});
  if (!group.left) return {};
  DeviceShare share{.free = *group.left, .needed = 0, .ranks = 0};
  for (const Use& use : all) {
    if (use.group != mine.group) continue;
    share.needed += use.needed;
    ++share.ranks;
  }
  return share;
}

void check_host_share(uint64_t needed, const std::optional<DeviceShare>& group) {
  if (!group || group->needed <= group->free) return;
  throw Error(ExitCode::kHostMemory,
              fmt::format("the run needs {} of host memory on this rank; its control group has {} left{}",
                          byte_count(needed), byte_count(group->free),
                          group->ranks == 1 ? ""
                                            : fmt::format(", and the {} ranks there need {}", group->ranks,
                                                          byte_count(group->needed))),
              "beyond it the system would kill the run: raise the group's limit (docker run --memory, "
              "Slurm's --mem), or lower training.micro_batch_size");
}

uint64_t budget_of(const Config& config) {
  const int64_t limit = config.device.memory_limit, budget = config.activation_checkpointing.memory_budget;
  return static_cast<uint64_t>(limit == 0 || budget == 0 ? std::max(limit, budget) : std::min(limit, budget));
}

bool fits(const Config& config, const MemoryLedger& predicted) {
  const CheckpointingSettings& c = config.activation_checkpointing;
  const auto within = [](uint64_t bytes, uint64_t limit) { return limit == 0 || bytes <= limit; };
  return within(predicted.arena_bytes(), budget_of(config)) &&
         within(predicted.host_saved_bytes, static_cast<uint64_t>(c.host_memory_budget)) &&
         within(predicted.disk_bytes, static_cast<uint64_t>(c.disk_checkpointing.limit));
}

uint64_t save_buffer_bytes(const Config& config) {
  const bool saves = config.checkpoint.save_model || config.checkpoint.save_best_model ||
                     !config.debug.dump_gradients.empty();
  return saves ? Weights::kSaveBytes : 0;
}

void check_limits(const Config& config, const MemoryLedger& predicted, const std::string& table,
                  const std::optional<DeviceShare>& device) {
  const auto over = [](uint64_t needed, int64_t limit) {
    return limit > 0 && needed > static_cast<uint64_t>(limit);
  };
  const uint64_t needed = predicted.arena_bytes();
  std::string against;
  if (over(needed, config.device.memory_limit))
    against = fmt::format("device.memory_limit is {}",
                          byte_count(static_cast<uint64_t>(config.device.memory_limit)));
  else if (device && device->needed > device->free)
    against = fmt::format("its device has {} free{}", byte_count(device->free),
                          device->ranks == 1 ? ""
                                             : fmt::format(", and the {} ranks there need {}", device->ranks,
                                                           byte_count(device->needed)));
  if (!against.empty())
    throw Error(ExitCode::kDeviceMemory,
                fmt::format("the run needs {} on this rank; {}{}{}", byte_count(needed), against,
                            table.empty() ? "" : "\n", table),
                "`recollect estimate --compare` lists what activation checkpointing can do; " +
                    memory_advice(config, predicted));
  const CheckpointingSettings::Disk& disk = config.activation_checkpointing.disk_checkpointing;
  if (over(predicted.disk_bytes, disk.limit))
    throw Error(
        ExitCode::kStorage,
        fmt::format("the run needs {} of disk on this rank; "
                    "activation_checkpointing.disk_checkpointing.limit is {}",
                    byte_count(predicted.disk_bytes), byte_count(static_cast<uint64_t>(disk.limit))),
        "raise the limit, or save less: another mode, a larger keep_last, storage_dtype: bf16 or e4m3");
}

}  // namespace recollect
