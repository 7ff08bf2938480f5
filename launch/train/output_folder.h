// The folder that a run writes to. One run at a time has it, by a lock that ends with its process, and it
// holds no other run's files unless they may be replaced. Looked at before memory is reserved; made and
// written only when everything else is accepted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/io/descriptor.h"
#include "launch/config/config.h"

namespace recollect {

// A file of a run, and the most bytes that it will have.
struct PlannedFile {
  std::string what;
  uint64_t bytes = 0;
};

class OutputFolder {
 public:
  // Error kStorage where the folder cannot be made, another run has it, or it holds what the configuration
  // does not allow to replace. Writes nothing.
  explicit OutputFolder(const Config& config);
  // Where a run of `recollect run` or of a job of Slurm has failed, their name stays: the next attempt may replace
  // these files. So may the same run that is started again, where it goes on by itself (resume: auto).
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  // Makes and locks it, and removes what dead processes have left half-written. Error kStorage too where its
  // disk has no room for the files.
  void take(const std::vector<PlannedFile>& files);
  // The configuration and the plan, with which the run begins: nothing refuses it any more. Error kStorage.
  void begin(const std::string& resolved, const std::string& plan);
  // Error kStorage where another folder has the name by now.
  void check_place() const;
  // The run is done: nobody needs to know whose it was.
  void leave();

 private:
  void check_unused() const;
  void check_no_gradients() const;
  void check_space(const std::vector<PlannedFile>& files) const;
  int open_lock(int flags) const;
  [[noreturn]] void refuse_locked(int lock) const;

  const std::string path_, gradients_;
  const bool overwrite_, goes_on_by_itself_;
  bool began_ = false;
  Descriptor folder_;
  int lock_ = -1;
};

}  // namespace recollect
