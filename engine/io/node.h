// What this node offers: cores, GPUs, its name, a free port. These functions change nothing; GPUs are counted
// without a CUDA library.
#pragma once

#include <cstdint>
#include <string>

namespace recollect {

class SystemFiles;

// Returns how many of `cores` the control group of this process may keep busy at the same time, rounded down,
// at least one.
int within_quota(int cores, const SystemFiles& files);

// Returns the number of cores that this process may use: its affinity mask, limited by its quota.
int cores_to_use();

// Returns the number of GPUs that CUDA would show: those that the driver lists in the folder `driver`,
// restricted by CUDA_VISIBLE_DEVICES up to its first invalid entry.
int count_gpus(const char* visible_devices, const std::string& driver);
int count_gpus();

// Returns a loopback port on which nothing listens at the moment. It lies below the ports that the system
// assigns to outgoing connections, so none of these takes it before its owner does. Two calls of one process
// never return the same port, and those of two processes only by chance. Throws Error kConfiguration if there
// is none.
uint16_t free_port();

std::string host_name();

}  // namespace recollect
