// Snapshots of a run: from which one it goes on, and when another one is due. A save that fails costs no training: it is
// said, and the run ends only when several have failed in a row.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/train/session.h"
#include "parallel/snapshot/snapshot_saver.h"

namespace recollect {

// What a run goes on from. `folder` is empty where it begins at its first step.
struct Resumed {
  std::string folder;
  TrainingProgress progress;
  std::vector<std::string> passed_over;  // newer snapshots that are damaged, and what is wrong with them
  std::string
      changed;  // keys that decide results and are others now, with both values; "" where there are none
  std::string classes =
      "[]";  // that the model was trained to tell apart, in order; [] where they have no names
  std::vector<std::string> ignored_files = {};  // in the folder, and not in its manifest
};

// Collective. Fills the state from the snapshot that `config` asks for; all ranks from the same one. With resume: auto the
// newest that is whole, and nothing where there is none; one of the last step too, behind which a run may have died before
// its model was saved. Error kInput where it is damaged or of another model, where all are damaged, and where it is of a
// later step than the run has.
Resumed resume_training(const Config& config, const TrainingState& state, Communicator& world);

// Error kInput where the data names other classes, or in another order, than the snapshot's did: what the model has
// learned of one class would count for another.
void check_classes(const Resumed& resumed, const Config& config, const Session& session);

// What a run's saves came to.
struct SnapshotTotals {
  int64_t saved = 0, failed = 0;
  double copied_seconds = 0;  // that training waited for, of all
  double seconds = 0;         // from the beginning to the name, of all
  uint64_t bytes = 0;         // of this rank, of all
};

class Snapshots {
 public:
  // Collective. Config and session must outlive it. `before_commit`: rank 0's, on the thread that writes. Error kStorage
  // where the folder cannot be used, is another run's, or its disk has no room for as many as are kept, and one more.
  Snapshots(const Config& config, const Session& session, std::function<void()> before_commit);

  // Collective, after every step. Error kStorage where several saves have failed in a row.
  void after_step();
  // Collective. Fills the session's state from the newest snapshot that is whole. Error kNumerics where there is none.
  TrainingProgress go_back();
  // Collective. Saves the last step, and waits until it is on the disk.
  void finish();
  const SnapshotTotals& totals() const { return totals_; }
  // Whether that has succeeded.
  bool are_saved() const { return failures_ == 0; }

 private:
  bool is_due() const;
  void begin();
  void note(const SnapshotOutcome& outcome);

  // Of rank 0: no other run's snapshots stand in the folder while this one lives.
  class FolderLock {
   public:
    FolderLock(const Config& config, const Session& session);
    ~FolderLock();
    FolderLock(const FolderLock&) = delete;
    FolderLock& operator=(const FolderLock&) = delete;

   private:
    int descriptor_ = -1;
  };

  const Config& config_;
  const Session& session_;
  const FolderLock lock_;
  SnapshotSaver saver_;
  std::chrono::steady_clock::time_point last_;
  int64_t saved_step_;  // begun with, at least
  int failures_ = 0;    // in a row
  bool said_left_ = false;
  SnapshotTotals totals_;
};

}  // namespace recollect
