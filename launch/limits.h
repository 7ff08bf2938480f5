// What a run may take, checked before anything is reserved.
#pragma once

#include <optional>
#include <string>

#include "comm/communicator.h"
#include "engine/runtime/device.h"
#include "engine/runtime/ledger.h"
#include "launch/config/config.h"

namespace recollect {

// A rank's device before anybody has reserved anything of it.
struct DeviceShare {
  uint64_t free = 0;    // bytes
  uint64_t needed = 0;  // bytes of all ranks that use it
  int ranks = 1;        // that use it
};

// Collective over `world`, whose memory is the host's. `needed`: this rank's bytes. Nothing where the
// device's memory is the host's too.
std::optional<DeviceShare> share_of(const Device& device, uint64_t needed, Communicator& world);

// Error kDeviceMemory, with `table`, where a rank needs more than device.memory_limit, or than its device has
// free, alone or with the other ranks there; kStorage where it needs more of the disk than
// activation_checkpointing.disk_checkpointing.limit.
void check_limits(const Config& config, const MemoryLedger& foretold, const std::string& table = {},
                  const std::optional<DeviceShare>& device = {});

}  // namespace recollect
