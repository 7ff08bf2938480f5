// What a run may take, checked before anything is reserved.
#pragma once

#include "engine/runtime/ledger.h"
#include "launch/config/config.h"

namespace recollect {

// Error kDeviceMemory where a rank needs more than device.memory_limit, kStorage where it needs more of the
// disk than activation_checkpointing.disk_checkpointing.limit.
void check_limits(const Config& config, const MemoryLedger& foretold);

}  // namespace recollect
