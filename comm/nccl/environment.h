// What NCCL must find in the environment before it is first asked for anything. It has no other way to be
// told.
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
  int version = 0;           // of the library, as ncclGetVersion says it
  int ranks_per_device = 1;  // on the fullest device
  int rank = 0;              // in the world
  bool one_node = true;
};

// Always: launches of several groups keep the order in which they are made, lest groups that overlap on
// several devices wait for each other; and no sums inside the switch (NVLS), whose order differs from call to
// call.
//
// With several ranks on a device also: from 2.30.3 on the permission to share it; before, a host name of its
// own for every rank, which makes NCCL take the ranks of one device for ranks of different machines and talk
// through sockets. Either way few thread blocks for each rank, because all must fit the device at once.
std::vector<Variable> nccl_environment(const Circumstances& circumstances);

// Those that are not set yet. Who sets one himself means it.
std::vector<Variable> not_yet_set(std::vector<Variable> variables,
                                  const std::function<const char*(const char* name)>& lookup);

std::string to_string(const std::vector<Variable>& variables);  // "A=1 B=2"

}  // namespace recollect::nccl
