// Checks the memory and disk limits of a run before anything is reserved.
#pragma once

#include <optional>
#include <string>

#include "comm/communicator.h"
#include "engine/runtime/device.h"
#include "engine/runtime/ledger.h"
#include "launch/config/config.h"

namespace recollect {

// The device of a rank before any rank has reserved memory on it.
struct DeviceShare {
  uint64_t free = 0;    // bytes
  uint64_t needed = 0;  // bytes for all ranks that use it
  int ranks = 1;        // ranks that use it
};

// Collective over `world`, which works on host memory. `needed` is this rank's bytes. Empty if the device's
// memory is host memory.
std::optional<DeviceShare> share_of(const Device& device, uint64_t needed, Communicator& world);

// The host memory that a control group gives to all its processes.
struct MemoryGroup {
  uint64_t name = 0;             // a digest of the names of node and group
  std::optional<uint64_t> left;  // bytes; empty without a limit
};
MemoryGroup memory_group();
// The whole node as a group of all its processes, with nothing used yet.
MemoryGroup whole_machine();
// Collective over `world`. `needed` is this rank's bytes. Empty without a limit.
std::optional<DeviceShare> share_of_group(const MemoryGroup& group, uint64_t needed, Communicator& world);
// Throws kHostMemory if the ranks of a group need more than it has left.
void check_host_share(uint64_t needed, const std::optional<DeviceShare>& group);

// The bytes that a rank may use on its device: the smaller of memory_budget and device.memory_limit; 0 means
// no limit.
uint64_t budget_of(const Config& config);
// Whether the predicted memory is within budget_of() and the limits of host memory and disk.
bool fits(const Config& config, const MemoryLedger& predicted);

// Host memory outside of the arenas that a run reserves to save a model or gradients.
uint64_t save_buffer_bytes(const Config& config);

// Throws kDeviceMemory with `table` if a rank needs more than device.memory_limit, or if it alone or all
// ranks on its device together need more than the device has free. Throws kStorage if it needs more disk than
// activation_checkpointing.disk_checkpointing.limit.
void check_limits(const Config& config, const MemoryLedger& predicted, const std::string& table = {},
                  const std::optional<DeviceShare>& device = {});

}  // namespace recollect
