// A small process beside the launcher that ends what the launcher started if the launcher cannot: it waits
// for its death, and then kills the ranks' groups, so also what a rank had started itself, and removes what a
// run leaves behind. An orderly end of the launcher ends the guard first.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "engine/io/descriptor.h"

namespace recollect::launcher {

class Guard {
 public:
  // Removes `files` in this order; a folder must be empty by then. To be made while the process has one
  // thread.
  explicit Guard(const std::vector<std::string>& files);
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  pid_t pid() const { return pid_; }
  // Where a process that has become a group's leader writes its number, before it starts others: the guard kills the group
  // too, also where the launcher dies in that moment.
  int descriptor() const { return to_guard_.get(); }
  void forget_all() const;

 private:
  Descriptor to_guard_;
  pid_t pid_ = 0;
};

}  // namespace recollect::launcher
