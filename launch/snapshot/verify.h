// Every byte of a snapshot against the check sums of its manifest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace recollect {

struct Verified {
  std::vector<std::string> wrong;  // each with the file and the bytes that it is about
  bool damaged = false;            // otherwise what is wrong is that the system does not read it
  std::size_t files = 0, tensors = 0;
  uint64_t bytes = 0;  // that were read
  double seconds = 0;
};

// Everything that is wrong, not the first of it alone, and all that can be read; memory for a MiB.
Verified verify_snapshot(const std::string& folder);

// What can be seen without reading the files: that each is there, and as large as its manifest says. "" where all are.
std::string missing_files(const std::string& folder);

}  // namespace recollect
