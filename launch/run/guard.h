// A small process beside the launcher that cleans up if the launcher dies. It waits for that death, then
// kills the process groups of the ranks, with everything that the ranks started in them, and removes
// temporary files of the run. On an orderly end the launcher ends the guard first.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "engine/io/descriptor.h"

namespace recollect::launcher {

class Guard {
 public:
  // After the launcher's death the guard removes `files` in this order; a folder must be empty by then.
  // Construct it while the process has one thread.
  explicit Guard(const std::vector<std::string>& files);
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  pid_t pid() const { return pid_; }
  // A new process group leader writes its process id to this descriptor before it starts other processes.
  // From then on the guard kills this group too, even if the launcher dies at that moment.
  int descriptor() const { return to_guard_.get(); }
  void forget_all() const;

 private:
  Descriptor to_guard_;
  pid_t pid_ = 0;
};

}  // namespace recollect::launcher
