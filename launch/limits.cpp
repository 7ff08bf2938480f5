#include "launch/limits.h"

#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "engine/core/error.h"

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

void check_limits(const Config& config, const MemoryLedger& foretold, const std::string& table,
                  const std::optional<DeviceShare>& device) {
  const auto over = [](uint64_t needed, int64_t limit) {
    return limit > 0 && needed > static_cast<uint64_t>(limit);
  };
  const uint64_t needed = foretold.arena_bytes();
  std::string against;
  if (over(needed, config.device.memory_limit))
    against = fmt::format("device.memory_limit is {}", config.device.memory_limit);
  else if (device && device->needed > device->free)
    against = fmt::format(
        "its device has {} free{}", device->free,
        device->ranks == 1 ? ""
                           : fmt::format(", and the {} ranks there need {}", device->ranks, device->needed));
  if (!against.empty())
    throw Error(ExitCode::kDeviceMemory,
                fmt::format("the run needs {} bytes on this rank; {}{}{}", needed, against,
                            table.empty() ? "" : "\n", table),
                "`recollect estimate --compare` lists what activation checkpointing can do; or lower "
                "training.micro_batch_size, or use more tensor-parallel ranks");
  const Config::ActivationCheckpointing::Disk& disk = config.activation_checkpointing.disk_checkpointing;
  if (over(foretold.disk_bytes, disk.limit))
    throw Error(ExitCode::kStorage,
                fmt::format("the run needs {} bytes of disk on this rank; "
                            "activation_checkpointing.disk_checkpointing.limit is {}",
                            foretold.disk_bytes, disk.limit),
                "raise the limit, or keep less: another mode, a larger keep_last, storage_dtype: bf16");
}

}  // namespace recollect
