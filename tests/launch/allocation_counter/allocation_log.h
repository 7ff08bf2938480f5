// What the processes of one run write into one file, mapped by all of them: the step that the run is in, and
// every allocation in the steps that are looked at.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace recollect::test {

inline constexpr int kAllocationCallers = 12, kMostAllocations = 4096;

struct Allocation {
  int32_t process = 0, thread = 0;
  int64_t step = 0;
  char call[16] = {};
  uint64_t bytes = 0;
  char callers[kAllocationCallers][96] = {};  // "file+0xoffset", the innermost first
};

// A file of zeros is an empty log. The test sets the steps before it starts the run.
struct AllocationLog {
  std::atomic<int64_t> first_step, last_step;  // that are looked at
  std::atomic<int64_t> step;                   // that the run is in, once its first rank has done one
  std::atomic<int64_t> processes;              // that have the counter
  std::atomic<int64_t> outside;                // allocations in other steps
  std::atomic<int64_t> allocations;            // of the steps looked at, listed or not
  Allocation list[kMostAllocations];
};

// The environment variable with the file's name.
inline constexpr char kAllocationLogVariable[] = "RECOLLECT_TEST_ALLOCATION_LOG";

}  // namespace recollect::test
