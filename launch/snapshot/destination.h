// The destination of a converted snapshot.
#pragma once

#include <string>

#include "launch/snapshot/convert.h"
#include "parallel/snapshot/snapshot_folder.h"

namespace recollect {

// The destination may be the snapshot itself or a folder of several. Throws kConfiguration if its name is
// that of another step, and kStorage if something exists there that may not be replaced.
SnapshotFolder snapshot_place(const Conversion& conversion, int64_t step);

// The message after a successful conversion.
std::string written_line(const SnapshotFolder& folder, int64_t step, const RankLayout& layout);

}  // namespace recollect
