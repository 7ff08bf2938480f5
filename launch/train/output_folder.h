// The output folder of a run. One run at a time uses it; its lock ends with its process. The files of an
// earlier run move to the subfolder `earlier` unless they may be replaced. The folder is checked before
// memory is reserved, and created and written only after everything else has been accepted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/io/descriptor.h"
#include "launch/config/config.h"
#include "launch/train/earlier_run.h"

namespace recollect {

// A file of a run, and the upper bound of its size.
struct PlannedFile {
  std::string what;
  uint64_t bytes = 0;
};

class OutputFolder {
 public:
  // Throws kStorage if the folder cannot be created, another run uses it, or it holds files that may be
  // neither replaced nor moved. Writes nothing. `config` must outlive it.
  explicit OutputFolder(const Config& config);
  // After the failure of a run under `recollect run` or Slurm, the name of the launch stays in the lock, and
  // its next attempt may replace these files. The same holds for a run with resume: auto that is started
  // again.
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  // Creates and locks the folder, moves the files of an earlier run, and removes incomplete files of dead
  // processes. Also throws kStorage if the disk has no room for `files`. If the run does not begin, the moved
  // files are moved back.
  void take(const std::vector<PlannedFile>& files);
  // Writes the configuration and the plan. The run begins with this and is not refused any more. Throws
  // kStorage.
  void begin(const std::string& resolved, const std::string& plan);
  // Whether take() has moved the files of another run, including its snapshots.
  bool has_moved() const { return earlier_.has_value(); }
  // Throws kStorage if another folder has the name now.
  void check_place() const;
  // The run is done: removes its lock.
  void leave();

 private:
  bool may_replace() const;
  // The files of an earlier run to move. Throws kStorage if they may not be moved.
  std::vector<std::string> files_to_move() const;
  void check_no_gradients() const;
  void check_space(const std::vector<PlannedFile>& files) const;
  int open_lock(int flags) const;
  [[noreturn]] void refuse_locked(int lock) const;

  const Config& config_;
  const std::string path_, gradients_;
  const bool overwrite_, goes_on_by_itself_;
  bool began_ = false;
  std::optional<EarlierRun> earlier_;
  Descriptor folder_;
  int lock_ = -1;
};

}  // namespace recollect
