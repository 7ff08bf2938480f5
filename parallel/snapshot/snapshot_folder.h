// The folder of a run's snapshots. A snapshot is a folder "step-00000042" with its manifest in it. While it is
// written its folder is called "step-00000042.saving", and it takes its name when everything is on the disk; one that
// goes loses its name first (".removed"). Where a file system cannot exchange two names, one that is replaced waits as
// "step-00000042.former" until the new one has its name. So what is called after a step is a whole snapshot or damaged,
// a ".former" one without a whole one is the snapshot of that step, and all else is rubbish.
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
  std::string former(int64_t step) const;
  std::string being_saved(int64_t step) const;

  // Steps that something is called after, the newest first: snapshots, or what is in the place of one. Error kStorage where
  // the folder cannot be read; one that is not there has none.
  std::vector<int64_t> steps() const;

  // Errors: kStorage, with the system's reason.
  //
  // It and those around it, where they are not there; their names reach the disk.
  void make() const;
  // Gives a snapshot its name back that was put aside by a run that died then. Only while nobody saves there.
  void restore() const;
  // The same where the one that has the name is damaged, which is rubbish then.
  void put_back(int64_t step) const;
  // An empty folder to save into.
  void begin(int64_t step) const;
  // What begin() has made, and all in it. No error.
  void discard(int64_t step) const;
  // The manifest, and the name. A snapshot of the same step, which there may be after a rollback or where its manifest
  // was damaged, is rubbish then. After an error there is nothing half saved, but where what failed was to flush the
  // name: then nothing is removed, for nobody knows which of them the disk has.
  void commit(int64_t step, const std::string& manifest) const;
  // When that of `step` is on the disk: rubbish, and snapshots but for the newest `keep` up to it. Later ones go too:
  // they are another run's, or were passed over, and nobody may go on from them any more. All that can be removed is;
  // the error is the first one.
  void remove_old(int64_t step, int64_t keep) const;
  // What was left half saved or half removed, as far as it can be, and when the disk has the names that are there now.
  // No error.
  void remove_rubbish() const;

 private:
  void take_name(int64_t step) const;
  void replace(const std::string& to, const std::string& from) const;
  std::vector<std::string> rubbish() const;

  std::string path_;
};

// The step that a snapshot's folder is called after, or -1.
int64_t step_of_folder(const std::string& name);

}  // namespace recollect
