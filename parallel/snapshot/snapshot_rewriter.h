// Writes a snapshot from one process, whatever layout of ranks it is to look as if it came from: each rank's file after
// the other, piece by piece, with memory for a few MiB. It appears under its name when it is whole, as one that a training
// saves.
#pragma once

#include <functional>

#include "parallel/snapshot/manifest.h"
#include "parallel/snapshot/snapshot_folder.h"
#include "parallel/snapshot/state_layout.h"

namespace recollect {

// Elements of a tensor of the layout, whole rows of the rectangle behind each other.
using ReadTensor = std::function<void(std::size_t tensor, const Rectangle& place, std::byte* to)>;

// `manifest`: without files and tensors, which are the layout's. Its step is the snapshot's. One of the same step is
// replaced. Errors: kStorage, and those of `read`; then nothing is left of it.
void write_snapshot(const SnapshotFolder& folder, Manifest manifest, const StateLayout& layout,
                    const ReadTensor& read);

}  // namespace recollect
