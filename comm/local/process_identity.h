// Who a process is, so that a process that has died is not mistaken for a later one with the same number.
#pragma once

#include <chrono>
#include <cstdint>

namespace recollect::local {

struct ProcessIdentity {
  int64_t pid = 0;
  uint64_t start_time = 0;  // clock ticks since boot; 0 when unknown
  uint64_t pid_namespace = 0;

  bool operator==(const ProcessIdentity&) const = default;
};

ProcessIdentity this_process();

// False when that process has ended (zombies have). True when it lives or when this process cannot know,
// which is so across pid namespaces and without /proc.
bool may_be_alive(const ProcessIdentity& process);

// How often those who wait for a process look whether it still lives.
constexpr std::chrono::milliseconds kLookInterval{200};

}  // namespace recollect::local
