// The contents of snapshots as text and as JSON, read from their manifests.
#pragma once

#include <string>
#include <vector>

namespace recollect {

// All details of one snapshot. Throws kInput if its manifest cannot be read.
std::string snapshot_text(const std::string& folder);
// One line for each of several snapshots, with the damage if there is any.
std::string snapshots_text(const std::vector<std::string>& folders);
// The same as JSON; `whole` adds tensors and files.
std::string snapshots_json(const std::vector<std::string>& folders, bool whole);

}  // namespace recollect
