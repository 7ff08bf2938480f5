// Snapshots of a run: when one is due, and which it may go back to. A save that fails costs no training: it is said, and
// the run ends only when several have failed in a row. The last step's is tried once more, and where it fails again the run ends
// when its model is saved: nobody takes it for one whose state is on the disk.
#pragma once

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "launch/train/resume.h"
#include "launch/train/session.h"
#include "parallel/snapshot/snapshot_saver.h"

namespace recollect {

// What a run's saves came to.
struct SnapshotTotals {
  int64_t saved = 0, failed = 0;
  double copied_seconds = 0;  // that training waited for, of all
  double thread_seconds = 0;  // of a processor, that rank 0's thread took from those that compute, of all
  double seconds = 0;         // from the beginning to the name, of all
  uint64_t bytes = 0;         // of this rank, of all
};

class Snapshots {
 public:
  // Collective. Config and session must outlive it. `before_begin`, `before_commit`: rank 0's, the latter on the thread that
  // writes; what they throw fails the save. `resumed`: the snapshot that the run went on from. Error kStorage where the
  // folder cannot be used, and where the disk of a run that begins has no room for as many as are kept, and one more.
  Snapshots(const Config& config, const Session& session, std::function<void()> before_commit,
            std::string resumed = "", std::function<void()> before_begin = {});

  // Collective, after every step. Error kStorage where several saves have failed in a row, and steps are left.
  void after_step();
  // Collective. Fills the session's state from the newest of this run's own snapshots that is whole. Error kNumerics where
  // there is none.
  TrainingProgress go_back();
  // Collective. Saves the last step, and waits until it is on the disk; tries once more where that has failed.
  void finish();
  // Behind the last step. Error kStorage where it could not be saved.
  void check_saved() const;
  const SnapshotTotals& totals() const { return totals_; }
  // Why the latest one could not be saved; "" where it is.
  const std::string& failure() const { return failure_; }

 private:
  bool is_due() const;
  void begin();
  // `then`: what is said to follow where the save has failed; "": an error does, which says all.
  void note(const SnapshotOutcome& outcome, std::string_view then);
  // Error kStorage where several saves have failed in a row.
  void check_failures() const;
  std::vector<std::string> own() const;

  const Config& config_;
  const Session& session_;
  const std::string resumed_;
  SnapshotSaver saver_;
  std::chrono::steady_clock::time_point last_;
  int64_t saved_step_;           // begun with, at least
  std::set<int64_t> own_steps_;  // that this process has saved
  int failures_ = 0;             // in a row
  std::string failure_ = "";     // the latest of them
  int64_t failed_step_ = 0;      // likewise
  bool said_left_ = false;
  SnapshotTotals totals_;
};

}  // namespace recollect
