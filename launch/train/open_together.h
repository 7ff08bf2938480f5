// Data of ids, opened once a node: one process reads the files and finds out where their records are, and the others take
// that from it (engine/data/shared_index.h).
#pragma once

#include <functional>

#include "comm/communicator.h"
#include "launch/train/open_data.h"

namespace recollect {

// Opens the data; by what another process has found out of its files, where it is given.
using OpenIds = std::function<OpenedData(IndexReader* index)>;

// Collective. A rank that may not look into another's process, or sees other files, opens them by itself. However long the
// first rank of a node takes, the others wait. Error: that of any rank, on all.
OpenedData open_together(Communicator& world, const OpenIds& open);

}  // namespace recollect
