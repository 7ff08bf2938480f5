// One run at a time has a folder of snapshots. Where the folder is there it is locked before anything is read in it or
// written anywhere; a dead run holds nothing.
#pragma once

#include <functional>

#include "comm/communicator.h"
#include "engine/io/descriptor.h"
#include "launch/config/config.h"

namespace recollect {

// Of a folder of snapshots, held until it is closed; not open where the folder is not there. Error kStorage where a run has
// it. A folder that cannot be locked, as on some file systems, is used all the same.
Descriptor lock_snapshots(const std::string& path);

// Collective. What rank 0 does for all: where it ends in an Error kStorage that is everybody's.
void on_first_rank(Communicator& world, const std::function<void()>& act);

class SnapshotLock {
 public:
  // Collective. Of the folder, where it is there; a snapshot that a dead run has put aside has its name again then. Error
  // kStorage where another run has it. Nothing where the run saves no snapshots.
  SnapshotLock(const Config& config, Communicator& world);

  // Collective. Makes the folder where it was not there, and locks it. Error kStorage where another run has made it since,
  // and has saved something there.
  void make();
  // Of rank 0, before it writes there: the folder is still the one that is locked. Where nothing has its name any more it is
  // made anew. Error kStorage where another folder has it.
  void check();

 private:
  void take();

  const Config& config_;
  Communicator& world_;
  Descriptor folder_;
};

}  // namespace recollect
