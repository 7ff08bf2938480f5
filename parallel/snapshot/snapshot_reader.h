// A snapshot that is there, whatever layout of ranks wrote it. Each rank reads what it holds, and nothing that is damaged.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parallel/snapshot/shard_file.h"
#include "parallel/snapshot/training_state.h"

namespace recollect {

class SnapshotReader {
 public:
  // `folder`: of one snapshot. Error kInput where its manifest is missing, damaged or of another step than the folder is
  // called after, and where the folder is a symbolic link.
  explicit SnapshotReader(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }

  // Error kInput, naming all of them, where the snapshot is of other tensors.
  void check_matches(const TrainingState& state) const;
  // What this rank holds of the state, parameters of another type included; memory bounded by a few MiB. Error kInput
  // where the snapshot is damaged or of other tensors; the state may then be anything.
  void load(const TrainingState& state);
  // All bytes of all files.
  void verify();
  // Error kInput where a file has not a tensor that the manifest puts into it.
  void check_tensors();
  // Names in the folder that are not the manifest's, as far as it can be read. No error.
  std::vector<std::string> unknown_files() const;
  // One of the manifest's files as it is, unverified. Error kInput where it is missing or a symbolic link.
  InputFile open(std::size_t index) const;
  // Of the manifest's tensors; their number where there is no such one.
  std::size_t index_of(std::string_view name) const;
  // Elements of a tensor, whole rows of a rectangle behind each other.
  void read(std::size_t tensor, const Rectangle& place, std::byte* to);

 private:
  ShardFile& file(std::size_t index);
  std::size_t find(const StateTensor& wanted, std::string& problems) const;

  std::string folder_;
  Manifest manifest_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
  std::map<std::size_t, std::unique_ptr<ShardFile>> open_;
};

}  // namespace recollect
