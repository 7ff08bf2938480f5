// Writes the model of a snapshot in Hugging Face's format, byte for byte as checkpoint.save_model would write
// it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/snapshot/saved_run.h"
#include "parallel/snapshot/snapshot_reader.h"

namespace recollect {

// Writes to an empty folder, and uses memory for two pieces of a tensor. Without `dtype` the files have the
// dtype of the master copies. Throws kInput if the snapshot is damaged, does not match the model of its
// configuration, or has numbers that `dtype` cannot hold; and kStorage.
void write_hugging_face(SnapshotReader& snapshot, const SavedRun& run, std::optional<DType> dtype,
                        const std::string& folder);

// The names of files that such a folder may hold.
const std::vector<std::string>& hugging_face_files();

}  // namespace recollect
