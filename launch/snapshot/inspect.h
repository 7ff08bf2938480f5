// What snapshots say of themselves, for people and as JSON.
#pragma once

#include <string>
#include <vector>

namespace recollect {

// Of one: everything. Error kInput where its manifest cannot be read.
std::string snapshot_text(const std::string& folder);
// Of several: a line each, with what is wrong where something is.
std::string snapshots_text(const std::vector<std::string>& folders);
// The same of either; with `whole`, tensors and files too.
std::string snapshots_json(const std::vector<std::string>& folders, bool whole);

}  // namespace recollect
