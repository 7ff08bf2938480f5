// Which snapshots a word of the command line means: one, or all in the folder of a run's.
#pragma once

#include <string>
#include <vector>

namespace recollect {

// The folders of those that are there, the oldest first. None where it is neither.
std::vector<std::string> find_snapshots(const std::string& path);
// Error kInput instead of none.
std::vector<std::string> require_snapshots(const std::string& path);

}  // namespace recollect
