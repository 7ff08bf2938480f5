// The folder that a run writes to. One run at a time has it, by a lock that ends with its process. The files of the run
// before move to its folder `earlier` unless they may be replaced. Looked at before memory is reserved; made and
// written only when everything else is accepted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/io/descriptor.h"
#include "launch/config/config.h"
#include "launch/train/earlier_run.h"

namespace recollect {

// A file of a run, and the most bytes that it will have.
struct PlannedFile {
  std::string what;
  uint64_t bytes = 0;
};

class OutputFolder {
 public:
  // Error kStorage where the folder cannot be made, another run has it, or it holds what may neither be replaced nor
  // move away. Writes nothing. `config` must outlive it.
  explicit OutputFolder(const Config& config);
  // Where a run of `recollect run` or of a job of Slurm has failed, their name stays: the next attempt may replace
  // these files. So may the same run that is started again, where it goes on by itself (resume: auto).
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  // Makes and locks it, moves the files of the run before, and removes what dead processes have left half-written. Error
  // kStorage too where its disk has no room for the files. The files move back where the run does not begin.
  void take(const std::vector<PlannedFile>& files);
  // The configuration and the plan, with which the run begins: nothing refuses it any more. Error kStorage.
  void begin(const std::string& resolved, const std::string& plan);
  // Whether take() has moved what another run had left, its snapshots too.
  bool has_moved() const { return earlier_.has_value(); }
  // Error kStorage where another folder has the name by now.
  void check_place() const;
  // The run is done: nobody needs to know whose it was.
  void leave();

 private:
  bool may_replace() const;
  // Of the run before. Error kStorage where they may not.
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
