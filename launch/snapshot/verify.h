// Compares every byte of a snapshot with the check sums of its manifest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace recollect {

struct Verified {
  std::vector<std::string> wrong;  // each message names the file and the bytes
  bool damaged = false;            // false: at worst, the system cannot read a file
  std::size_t files = 0, tensors = 0;
  uint64_t bytes = 0;  // bytes that were read
  double seconds = 0;
};

// Reads everything that it can read and reports all damage, not only the first. It needs memory for a MiB.
Verified verify_snapshot(const std::string& folder);

// Checks without reading the files that each exists and has the size in the manifest. Returns "" if all do.
std::string missing_files(const std::string& folder);

}  // namespace recollect
