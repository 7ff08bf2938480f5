// Where the ranks of a world run, and which kind of device collectives follows from that. Nothing here
// touches a device.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace recollect::device {

struct RankPlace {
  uint64_t node = 0;     // the same for all processes of one running system
  int64_t process = 0;   // process number on that node
  std::string hardware;  // DeviceRuntime::hardware_id()
};

enum class WorldKind { kSelf, kDeviceLocal, kNccl };

struct WorldPlan {
  WorldKind kind = WorldKind::kSelf;
  int ranks_per_device = 1;  // on the device with the most ranks
  int devices = 1;
  bool one_node = true;
  bool threads = false;  // several ranks in one process
};

// Chooses the kind. One rank: kSelf. Threads of one process: kDeviceLocal if all share one device, kNccl if
// each has its own. Processes with one rank each: kNccl, however they share devices. Everything else throws
// Error kConfiguration: threads that share several devices, and several processes of which one has several
// ranks.
WorldPlan plan_world(std::span<const RankPlace> places);

}  // namespace recollect::device
