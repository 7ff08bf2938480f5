#include "launch/program/state_offload.h"

#include <fmt/format.h>

#include "launch/program/units.h"

namespace recollect {

namespace {

double in_mib(uint64_t bytes) { return static_cast<double>(bytes) / kMiB.bytes; }

}  // namespace

std::shared_ptr<DiskStore> state_store(const Config& config, const TakenOver& taken_over) {
  if (config.optimizer.offload != OffloadTo::kDisk) return nullptr;
  if (taken_over.state_disk) return taken_over.state_disk;
  const DiskPurpose purpose{.what = "optimizer states",
                            .key = "optimizer.offload_path",
                            .instead = "keep some in memory (optimizer.offload_ratio)"};
  return std::make_shared<DiskStore>(config.optimizer.offload_path, purpose);
}

void remark_on_offload(const Config& config, TrainingProgram& training) {
  const OffloadReport& o = training.optimizer.offload;
  if (o.values == 0) return;
  const bool disk = config.optimizer.offload == OffloadTo::kDisk;
  training.remarks.push_back(
      {"optimizer.offload",
       fmt::format("{} states and masters of {} parameters are kept {}, {:.2f} MiB less in the device's "
                   "memory; each step fetches {:.2f} MiB of them and stores as much, in {} chunks",
                   o.values, o.parameters, disk ? "on the disk" : "in the host's memory",
                   in_mib(o.saved_bytes), in_mib(o.moved_bytes), o.chunks)});
}

}  // namespace recollect
