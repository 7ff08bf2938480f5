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

// Host memory that one control group of the system gives to all processes in it.
struct MemoryGroup {
  uint64_t name = 0;             // a digest of the node's name and the group's
  std::optional<uint64_t> left;  // bytes; nothing where there is no limit
};
MemoryGroup memory_group();
// All processes of this node are in it, and nothing is taken of it yet.
MemoryGroup whole_machine();
// Collective over `world`. `needed`: this rank's bytes. Nothing where there is no limit.
std::optional<DeviceShare> share_of_group(const MemoryGroup& group, uint64_t needed, Communicator& world);
// Error kHostMemory where the ranks of a group need more than it has left.
void check_host_share(uint64_t needed, const std::optional<DeviceShare>& group);

// The bytes that a rank may take of its device: the smaller of memory_budget and device.memory_limit; 0: any.
uint64_t budget_of(const Config& config);
// Whether that is enough, and the limits of host memory and disk are.
bool fits(const Config& config, const MemoryLedger& predicted);

// Host memory beside the arenas that a run reserves where it will save a model or gradients.
uint64_t save_buffer_bytes(const Config& config);

// Error kDeviceMemory, with `table`, where a rank needs more than device.memory_limit, or than its device has
// free, alone or with the other ranks there; kStorage where it needs more of the disk than
// activation_checkpointing.disk_checkpointing.limit.
void check_limits(const Config& config, const MemoryLedger& predicted, const std::string& table = {},
                  const std::optional<DeviceShare>& device = {});

}  // namespace recollect
