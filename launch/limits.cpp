#include "launch/limits.h"

#include <fmt/format.h>

#include "engine/core/error.h"

namespace recollect {

void check_limits(const Config& config, const MemoryLedger& foretold, const std::string& table,
                  std::optional<Device::Memory> memory) {
  const auto over = [](uint64_t needed, int64_t limit) {
    return limit > 0 && needed > static_cast<uint64_t>(limit);
  };
  const uint64_t needed = foretold.arena_bytes();
  std::string against;
  if (over(needed, config.device.memory_limit))
    against = fmt::format("device.memory_limit is {}", config.device.memory_limit);
  else if (memory && needed > memory->free)
    against = fmt::format("its device has {} free", memory->free);
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
