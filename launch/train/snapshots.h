// The snapshots (training checkpoints) of a run: when one is due, and to which ones the run may roll back. If
// a save fails, the run warns and continues; it ends only if several fail in a row. The save of the last step
// is tried twice. If both fail, the run saves its model and then ends with an error, because its state is not
// on the disk.
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

// Totals over the saves of a run.
struct SnapshotTotals {
  int64_t saved = 0, failed = 0;
  double copied_seconds = 0;  // that training waited for
  double thread_seconds = 0;  // of processor time that rank 0's thread took from computation
  double seconds = 0;         // from the beginning to the final name
  uint64_t bytes = 0;         // of this rank
};

class Snapshots {
 public:
  // Collective. Config and session must outlive it. `before_begin` and `before_commit` run on rank 0, the
  // latter on the writing thread; if they throw, the save fails. `resumed` is the snapshot that the run
  // resumed from. Throws kStorage if the folder cannot be used, or if the disk of a new run has no room for
  // one snapshot more than it keeps.
  Snapshots(const Config& config, const Session& session, std::function<void()> before_commit,
            std::string resumed = "", std::function<void()> before_begin = {});

  // Collective, after every step. Throws kStorage if several saves have failed in a row and steps are left.
  void after_step();
  // Collective. Fills the session's state from the newest intact snapshot that this run owns. Throws
  // kNumerics if there is none.
  TrainingProgress go_back();
  // Collective. Saves the last step and waits until it is on the disk; tries once more after a failure.
  void finish();
  // Call it after the last step. Throws kStorage if that step could not be saved.
  void check_saved() const;
  const SnapshotTotals& totals() const { return totals_; }
  // Why the latest save failed; "" if it succeeded.
  const std::string& failure() const { return failure_; }

 private:
  bool is_due() const;
  void begin();
  // `then` is the consequence to print after a failure; "" if an error follows that says it.
  void note(const SnapshotOutcome& outcome, std::string_view then);
  // Throws kStorage if several saves have failed in a row.
  void check_failures() const;
  std::vector<std::string> own() const;

  const Config& config_;
  const Session& session_;
  const std::string resumed_;
  SnapshotSaver saver_;
  std::chrono::steady_clock::time_point last_;
  int64_t saved_step_;           // at least begun
  std::set<int64_t> own_steps_;  // saved by this process
  int failures_ = 0;             // in a row
  std::string failure_ = "";     // the latest failure
  int64_t failed_step_ = 0;      // the step of the latest failure
  bool said_left_ = false;
  SnapshotTotals totals_;
};

}  // namespace recollect
