// Identifies a process, so that a dead process is not mistaken for a later one with the same number.
#pragma once

#include <chrono>
#include <cstdint>

namespace recollect::local {

struct ProcessIdentity {
  int64_t pid = 0;
  uint64_t start_time = 0;  // clock ticks since boot; 0 if unknown
  uint64_t pid_namespace = 0;

  bool operator==(const ProcessIdentity&) const = default;
};

ProcessIdentity this_process();

// Returns false if the process has ended (a zombie has). Returns true if it lives, or if this process cannot
// know: across pid namespaces and without /proc.
bool may_be_alive(const ProcessIdentity& process);

// How often ranks that wait for a process check that it still lives.
constexpr std::chrono::milliseconds kLookInterval{200};

}  // namespace recollect::local
