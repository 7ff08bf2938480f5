// Where the ranks of a world live, and which kind of collectives on device memory that calls for. Nothing
// here touches a device.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace recollect::device {

struct RankPlace {
  uint64_t node = 0;     // the same for the processes of one running system
  int64_t process = 0;   // and of one process
  std::string hardware;  // DeviceRuntime::hardware_id()
};

enum class WorldKind { kSelf, kDeviceLocal, kNccl };

struct WorldPlan {
  WorldKind kind = WorldKind::kSelf;
  int ranks_per_device = 1;  // on the fullest one
  int devices = 1;
  bool one_node = true;
  bool threads = false;  // several ranks in one process
};

// One rank: kSelf. Threads of one process: kDeviceLocal where all share one device, kNccl where each has its
// own. Processes of one rank each: kNccl, however they share devices. Error kConfiguration for all else:
// threads that share several devices, and several processes of which one has several ranks.
WorldPlan plan_world(std::span<const RankPlace> places);

}  // namespace recollect::device
