// The environment variables that NCCL must find before its first call. It has no other way to receive these
// settings.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace recollect::nccl {

struct Variable {
  std::string name, value;
  bool operator==(const Variable&) const = default;
};

struct Circumstances {
  int version = 0;           // of the library, as in ncclGetVersion
  int ranks_per_device = 1;  // on the device with the most ranks
  int rank = 0;              // in the world
  bool one_node = true;
};

// Two variables are always set. Launches of several groups keep the order in which they are made; otherwise
// groups that overlap on several devices could wait for each other. And sums inside the switch (NVLS) are
// off, because their order differs from call to call.
//
// If several ranks share a device: from 2.30.3 on, NCCL is permitted to share it. Before that, every rank
// gets its own host name, so that NCCL takes the ranks of one device for ranks of different machines and uses
// sockets. In both cases each rank uses few thread blocks, because all must fit the device at the same time.
std::vector<Variable> nccl_environment(const Circumstances& circumstances);

// Returns the variables that are not set yet. A value that the user has set is kept.
std::vector<Variable> not_yet_set(std::vector<Variable> variables,
                                  const std::function<const char*(const char* name)>& lookup);

std::string to_string(const std::vector<Variable>& variables);  // "A=1 B=2"

}  // namespace recollect::nccl
