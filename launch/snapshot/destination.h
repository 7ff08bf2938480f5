// Where a snapshot that is converted goes.
#pragma once

#include <string>

#include "launch/snapshot/convert.h"
#include "parallel/snapshot/snapshot_folder.h"

namespace recollect {

// A destination may be the name of the snapshot itself, or of the folder of several. Errors: kConfiguration where it is
// the name of another step; kStorage where something is there and must stay.
SnapshotFolder snapshot_place(const Conversion& conversion, int64_t step);

// What is said when it is there.
std::string written_line(const SnapshotFolder& folder, int64_t step, const RankLayout& layout);

}  // namespace recollect
