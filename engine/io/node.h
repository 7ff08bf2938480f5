// What this node offers: cores, GPUs, its name, a free port. Looks, and changes nothing; GPUs are counted
// without a CUDA library.
#pragma once

#include <cstdint>
#include <string>

namespace recollect {

class SystemFiles;

// Of so many cores, those that the control group of this process may keep busy at once, in whole ones. At least one.
int within_quota(int cores, const SystemFiles& files);

// Cores that this process may use: those that it may run on, within its quota.
int cores_to_use();

// GPUs that CUDA would show: those the driver lists in `driver`, of them what CUDA_VISIBLE_DEVICES leaves, up
// to its first entry that names none.
int count_gpus(const char* visible_devices, const std::string& driver);
int count_gpus();

// A port of the loopback interface that nobody listens on, by now. It lies below those that the system gives to
// outgoing connections, so that none of these takes it before its owner comes; no two calls of a process name the
// same, and of two processes only by chance. Error kConfiguration where there is none.
uint16_t free_port();

std::string host_name();

}  // namespace recollect
