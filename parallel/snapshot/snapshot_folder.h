// The folder of a run's snapshots. A snapshot is a folder "step-00000042" with its manifest in it. While it is
// written its folder is called "step-00000042.saving", and it takes its name when everything is on the disk; one that
// goes loses its manifest first. So a folder of that name is a whole snapshot or damaged, and all else is rubbish.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace recollect {

class SnapshotFolder {
 public:
  explicit SnapshotFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string of_step(int64_t step) const;
  std::string being_saved(int64_t step) const { return of_step(step) + ".saving"; }

  // Steps of the snapshots that are there, the newest first. Error kStorage where the folder cannot be read; one that
  // is not there has none.
  std::vector<int64_t> steps() const;

  // Errors: kStorage, with the system's reason.
  //
  // An empty folder to save into.
  void begin(int64_t step) const;
  // The manifest, and the name. A snapshot of the same step, which there may be after a rollback or where its manifest
  // was damaged, is replaced.
  void commit(int64_t step, const std::string& manifest) const;
  // Snapshots but for the newest `keep`.
  void remove_old(int64_t keep) const;
  // What was left half saved or half removed, as far as it can be. No error.
  void remove_rubbish() const;

 private:
  std::string path_;
};

// The step that a snapshot's folder is called after, or -1.
int64_t step_of_folder(const std::string& name);

}  // namespace recollect
