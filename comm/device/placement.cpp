#include "comm/device/placement.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "comm/device_world.h"

namespace recollect {

int rank_device(int local_rank, int device_count) {
  require(local_rank >= 0, "the ranks of a node count from 0");
  if (device_count < 1)
    throw Error(
        ExitCode::kConfiguration,
        "rank " + std::to_string(local_rank) + " of this node has no device to use: this process sees none",
        "look at nvidia-smi and at CUDA_VISIBLE_DEVICES");
  return local_rank % device_count;
}

namespace device {

WorldPlan plan_world(std::span<const RankPlace> places) {
  std::map<std::pair<uint64_t, int64_t>, int> processes;
  std::map<std::string, int> devices;
  std::set<uint64_t> nodes;
  for (const RankPlace& place : places) {
    ++processes[{place.node, place.process}];
    ++devices[place.hardware];
    nodes.insert(place.node);
  }
  const auto ranks = static_cast<int>(places.size());
  const auto count = static_cast<int>(devices.size());
  const auto fullest = std::max_element(devices.begin(), devices.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  WorldPlan plan{WorldKind::kNccl, fullest->second, count, nodes.size() == 1,
                 processes.size() == 1 && ranks > 1};
  if (ranks == 1) {
    plan.kind = WorldKind::kSelf;
  } else if (processes.size() == 1 && count == 1) {
    plan.kind = WorldKind::kDeviceLocal;
  } else if (processes.size() == 1 && count < ranks) {
    throw Error(
        ExitCode::kConfiguration,
        std::to_string(ranks) + " rank threads of one process share " + std::to_string(count) + " devices",
        "let them share one (CUDA_VISIBLE_DEVICES=0), or start " + std::to_string(ranks) +
            " processes instead (parallelism.ranks_per_process: 1)");
  } else if (processes.size() > 1 && static_cast<int>(processes.size()) < ranks) {
    throw Error(ExitCode::kConfiguration,
                std::to_string(ranks) + " ranks on devices are spread over " +
                    std::to_string(processes.size()) + " processes, some of which have several",
                "start one process with all ranks as its threads, or one process for each rank");
  }
  return plan;
}

}  // namespace device
}  // namespace recollect
