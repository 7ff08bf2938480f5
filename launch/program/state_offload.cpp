#include "launch/program/state_offload.h"

#include <algorithm>

#include <fmt/format.h>

#include "checkpointing/op_time.h"
#include "engine/core/duration.h"
#include "launch/program/units.h"

namespace recollect {

namespace {

double in_mib(uint64_t bytes) { return static_cast<double>(bytes) / kMiB.bytes; }

double copying_seconds(uint64_t to_device, uint64_t to_host, const DeviceModel& device) {
  const auto seconds = [&](MemorySpace from, MemorySpace to, uint64_t bytes) {
    return bytes == 0 ? 0.0 : copy_seconds(from, to, static_cast<double>(bytes), device);
  };
  return std::max(seconds(MemorySpace::kHost, MemorySpace::kDevice, to_device),
                  seconds(MemorySpace::kDevice, MemorySpace::kHost, to_host));
}

// The longest of the overlapped parts. Updates on the device are not counted, because copies hide them.
std::string times_of_host(const Graph& graph, const OffloadReport& o, const DeviceModel& device) {
  double updates = 0;
  for (const Op& op : graph.ops())
    if (op.def->name == "host_update") updates += op_seconds(graph, op, device);
  const double copies = copying_seconds(o.fetched_bytes, o.stored_bytes, device),
               states = copying_seconds(o.stayed_bytes, o.stayed_bytes, device),
               here = std::max(updates, copies);
  return fmt::format(
      "; by the device model the host's processor updates them in {}, beside copies of {}; with "
      "offload_update device {:.2f} MiB would travel each way, in {}{}",
      duration_text(updates), duration_text(copies), in_mib(o.stayed_bytes), duration_text(states),
      here > states ? ", which is less" : "");
}

}  // namespace

std::shared_ptr<DiskStore> state_store(const Config& config, const TakenOver& taken_over) {
  if (config.optimizer.offload != OffloadTo::kDisk) return nullptr;
  if (taken_over.state_disk) return taken_over.state_disk;
  const DiskPurpose purpose{.what = "optimizer states",
                            .key = "optimizer.offload_path",
                            .instead = "keep some in memory (optimizer.offload_ratio)"};
  return std::make_shared<DiskStore>(config.optimizer.offload_path, purpose);
}

void remark_on_offload(const Config& config, const Graph& graph, TrainingProgram& training) {
  const OffloadReport& o = training.optimizer.offload;
  if (o.values == 0) return;
  const bool disk = config.optimizer.offload == OffloadTo::kDisk,
             on_host = config.optimizer.offload_update == OffloadUpdate::kHost;
  const std::string moves =
      on_host ? fmt::format("stores {:.2f} MiB of gradients there and fetches {:.2f} MiB of parameters",
                            in_mib(o.stored_bytes), in_mib(o.fetched_bytes))
              : fmt::format("fetches {:.2f} MiB of them and stores as much", in_mib(o.fetched_bytes));
  training.remarks.push_back(
      {"optimizer.offload",
       fmt::format("{} states and masters of {} parameters are kept {}, {:.2f} MiB less in the device's "
                   "memory; each step {}, in {} chunks{}",
                   o.values, o.parameters, disk ? "on the disk" : "in the host's memory",
                   in_mib(o.saved_bytes), moves, o.chunks,
                   on_host ? times_of_host(graph, o, training.device) : "")});
}

}  // namespace recollect
