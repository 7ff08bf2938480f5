// One run at a time has a folder of snapshots. Where the folder is there it is locked before anything is read in it or
// written anywhere; a dead run holds nothing.
#pragma once

#include <functional>

#include "comm/communicator.h"
#include "engine/io/descriptor.h"
#include "launch/config/config.h"

namespace recollect {

// Collective. What rank 0 does for all: where it ends in an Error kStorage that is everybody's.
void on_first_rank(Communicator& world, const std::function<void()>& act);

class SnapshotLock {
 public:
  // Collective. Of the folder, where it is there; a snapshot that a dead run has put aside has its name again then. Error
  // kStorage where another run has it. Nothing where the run saves no snapshots.
  SnapshotLock(const Config& config, Communicator& world);

  // Collective. Makes the folder where it was not there, and locks it.
  void make();

 private:
  void take();

  const Config& config_;
  Communicator& world_;
  Descriptor folder_;
};

}  // namespace recollect
