#include "launch/config/check_offload.h"

#include <fmt/format.h>

namespace recollect {

void check_offloaded_states(const Config& config, std::vector<Finding>& found) {
  const Config::Optimizer& o = config.optimizer;
  if (o.offload == OffloadTo::kNone) return;
  const OptimizerEntry& rule = optimizer_entry(o.name);
  if (rule.of_whole_matrices)
    found.push_back({{"optimizer.offload", "optimizer.name"},
                     fmt::format("optimizer.offload {} updates parameters in chunks, and optimizer.name {} "
                                 "needs whole matrices",
                                 name_of(o.offload), o.name)});
  if (config.training.master_dtype == MasterDType::kBF16)
    found.push_back(
        {{"optimizer.offload", "training.master_dtype"},
         fmt::format("optimizer.offload {} updates parameters in chunks, and training.master_dtype "
                     "bf16 rounds whole rows",
                     name_of(o.offload))});
  if (o.offload_update == OffloadUpdate::kHost && rule.of_whole_rows)
    found.push_back({{"optimizer.offload_update", "optimizer.name"},
                     fmt::format("optimizer.offload_update host sends gradients and parameters in place of "
                                 "states, and those of optimizer.name {} are smaller: write device",
                                 o.name)});
  if (o.offload_update == OffloadUpdate::kHost && config.training.precision == Precision::kFP16)
    found.push_back(
        {{"optimizer.offload_update", "training.precision"},
         "optimizer.offload_update host updates with the kernels of the cpu backend, which has none in "
         "training.precision fp16: write device"});
  if (o.offload != OffloadTo::kDisk) return;
  if (o.offload_path.empty())
    found.push_back({{"optimizer.offload"},
                     "optimizer.offload disk needs a folder on the disk: write optimizer.offload_path"});
  if (config.device.backend == BackendKind::kCuda)
    found.push_back({{"optimizer.offload", "device.backend"},
                     "optimizer.offload disk is for CPUs: the states of a CUDA device can be kept in the "
                     "host's memory, with host"});
}

std::vector<InertRule> inert_offload_rules() {
  return {{{"optimizer.offload"},
           {"device.backend"},
           [](const Config& c) {
             return c.optimizer.offload == OffloadTo::kHost && c.device.backend != BackendKind::kCuda;
           },
           "the host's memory is where states are already; disk keeps them elsewhere"},
          {{"optimizer.offload_path"},
           {"optimizer.offload"},
           [](const Config& c) { return c.optimizer.offload != OffloadTo::kDisk; },
           "no state is kept on the disk"},
          {{"optimizer.offload_ratio"},
           {"optimizer.offload"},
           [](const Config& c) { return c.optimizer.offload == OffloadTo::kNone; },
           "states stay where parameters are"},
          {{"optimizer.offload_update"},
           {"optimizer.offload"},
           [](const Config& c) { return c.optimizer.offload != OffloadTo::kHost; },
           "no state is kept in a host's memory apart from the processor that updates it"}};
}

}  // namespace recollect
