// The cache of Hugging Face's Hub: a folder models--OWNER--NAME has refs/main, which names a commit, and snapshots/COMMIT, whose
// files are links to blobs/.
#pragma once

#include <string>
#include <vector>

namespace recollect {

// The snapshot that is meant by such a folder: the one of refs/main, or else the only one. `folder` itself where it is none, or
// where that does not say which.
std::string hub_snapshot(const std::string& folder);

// Names of the snapshots of such a folder, sorted; none where it is none.
std::vector<std::string> hub_snapshots(const std::string& folder);

}  // namespace recollect
