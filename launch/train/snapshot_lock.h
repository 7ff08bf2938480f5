// Locks a folder of snapshots, which only one run at a time may use. If the folder exists, it is locked
// before anything in it is read and before anything is written. A dead run holds no lock.
#pragma once

#include <functional>

#include "comm/communicator.h"
#include "engine/io/descriptor.h"
#include "launch/config/config.h"

namespace recollect {

// Locks the folder until the descriptor is closed; the descriptor is not open if the folder does not exist.
// Throws kStorage if another run uses it. A folder that cannot be locked, as on some file systems, is used
// without a lock.
Descriptor lock_snapshots(const std::string& path);

// Collective. Rank 0 acts for all ranks; its Error kStorage is thrown on all of them.
void on_first_rank(Communicator& world, const std::function<void()>& act);

class SnapshotLock {
 public:
  // Collective. Locks the folder if it exists, and gives a snapshot that a dead run moved aside its name
  // back. Throws kStorage if another run uses it. Does nothing if the run saves no snapshots.
  SnapshotLock(const Config& config, Communicator& world);

  // Collective. Creates the folder if it did not exist, and locks it. Throws kStorage if another run has
  // created it meanwhile and saved something there.
  void make();
  // On rank 0, before it writes: checks that the folder is still the locked one. If its name is free, the
  // folder is created anew. Throws kStorage if another folder has the name.
  void check();

 private:
  void take();

  const Config& config_;
  Communicator& world_;
  Descriptor folder_;
};

}  // namespace recollect
