// The cache of Hugging Face's Hub: a folder models--OWNER--NAME has refs/main, which names a commit, and
// snapshots/COMMIT, whose files are links to blobs/.
#pragma once

#include <string>
#include <vector>

namespace recollect {

// The snapshot of such a folder: that of refs/main, else the only one. Returns
// `folder` itself if it is no such folder, or if neither rule finds a snapshot.
std::string hub_snapshot(const std::string& folder);

// Names of the snapshots of such a folder, sorted; empty if it is no such folder.
std::vector<std::string> hub_snapshots(const std::string& folder);

}  // namespace recollect
