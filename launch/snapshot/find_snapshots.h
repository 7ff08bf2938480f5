// Finds the snapshots that a path on the command line means: one snapshot, or all in a run's folder of
// snapshots.
#pragma once

#include <string>
#include <vector>

namespace recollect {

// The folders of the snapshots, the oldest first; empty if `path` is neither.
std::vector<std::string> find_snapshots(const std::string& path);
// The same, but throws kInput if there are none.
std::vector<std::string> require_snapshots(const std::string& path);

}  // namespace recollect
