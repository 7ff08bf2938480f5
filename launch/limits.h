// What a run may take, checked before anything is reserved.
#pragma once

#include <optional>
#include <string>

#include "engine/runtime/device.h"
#include "engine/runtime/ledger.h"
#include "launch/config/config.h"

namespace recollect {

// Error kDeviceMemory, with `table`, where a rank needs more than device.memory_limit, or than its device has
// free at this moment, where that is known; kStorage where it needs more of the disk than
// activation_checkpointing.disk_checkpointing.limit.
void check_limits(const Config& config, const MemoryLedger& foretold, const std::string& table = {},
                  std::optional<Device::Memory> memory = {});

}  // namespace recollect
