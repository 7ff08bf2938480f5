// The model of a snapshot as Transformers reads it: the same file that checkpoint.save_model writes of that state.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/snapshot/saved_run.h"
#include "parallel/snapshot/snapshot_reader.h"

namespace recollect {

// Into an empty folder, with memory for two pieces of a tensor. `dtype`: the master copies' own where it is not given.
// Errors: kInput where the snapshot is damaged, is not of its configuration's model, or has what `dtype` cannot hold;
// kStorage.
void write_hugging_face(SnapshotReader& snapshot, const SavedRun& run, std::optional<DType> dtype,
                        const std::string& folder);

// What such a folder may hold.
const std::vector<std::string>& hugging_face_files();

}  // namespace recollect
