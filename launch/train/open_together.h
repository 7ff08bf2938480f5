// Opens data of ids once a node: one process reads the files and makes the index of their records, and the
// others use its index (engine/data/shared_index.h).
#pragma once

#include <functional>

#include "comm/communicator.h"
#include "launch/train/open_data.h"

namespace recollect {

// Opens the data, with the index of another process if it is given.
using OpenIds = std::function<OpenedData(IndexReader* index)>;

// Collective. A rank that cannot access the other process, or sees other files, opens them itself. The others
// wait for the first rank of a node without a time limit. The error of any rank is thrown on all.
OpenedData open_together(Communicator& world, const OpenIds& open);

}  // namespace recollect
