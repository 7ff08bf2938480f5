// Saves snapshots while training goes on. Each rank copies its part into memory that was reserved for it, which is all
// that a step waits for, and a thread writes it. Between steps the ranks look together how far all are: when every
// part is on the disk rank 0 writes the manifest and gives the snapshot its name, and only then goes the oldest one.
// Whatever dies at whatever moment, the newest whole snapshot stays what it was.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/arena.h"
#include "engine/core/error.h"
#include "engine/io/write_thread.h"
#include "parallel/snapshot/manifest.h"
#include "parallel/snapshot/shard_file.h"
#include "parallel/snapshot/snapshot_folder.h"
#include "parallel/snapshot/training_state.h"

namespace recollect {

struct SnapshotOptions {
  std::string path;
  int64_t keep = 2;
  bool asynchronous =
      true;  // otherwise nothing is reserved beyond 3 MiB, and the step waits until all is written
  std::string configuration;
  std::map<std::string, std::string> inputs = {};
  std::map<std::string, std::string> versions = {};
  std::string launch = {};
  // Of rank 0, before anything is written: that it may be. An Error kStorage fails the save.
  std::function<void()> before_begin = {};
  // Of rank 0, on the thread that writes: what must be on the disk before the snapshot counts.
  std::function<void()> before_commit = {};
};

struct SnapshotOutcome {
  int64_t step = 0;
  std::optional<Error> failed;  // kStorage; the same on all ranks
  std::optional<Error> left;    // of rank 0, where it is saved: why an older one could not be removed
  double copied_seconds = 0;    // that training waited for
  double thread_seconds = 0;    // of a processor, that this rank's thread took from those that compute
  double seconds = 0;           // from the beginning to the name
  uint64_t bytes = 0;           // of this rank
};

class SnapshotSaver {
 public:
  // Collective. Reserves memory; error kStorage on all ranks where the folder cannot be made or is not one that all
  // ranks see. State and mesh must outlive the saver.
  SnapshotSaver(SnapshotOptions options, const TrainingState& state, const Mesh& mesh);
  ~SnapshotSaver();

  // Host memory that a rank reserves.
  static uint64_t buffer_bytes(const StateLayout& layout, int world_rank, bool asynchronous);

  bool busy() const { return phase_ != Phase::kIdle; }
  // All collective. Only when idle; where it is not asynchronous, finish() must follow at once.
  void begin(const TrainingProgress& progress);
  // Only when busy. Nothing while something is still being written.
  std::optional<SnapshotOutcome> look();
  // Only when busy: looks again and again.
  SnapshotOutcome finish();

 private:
  enum class Phase { kIdle, kWriting, kCommitting };

  void check_folder() const;
  void copy();
  void copy_block(int64_t block);
  void write();
  void write_part();
  void commit();
  SnapshotOutcome end(std::optional<Error> failed);
  Error why_failed();

  const SnapshotOptions options_;
  const TrainingState& state_;
  const Mesh& mesh_;
  const SnapshotFolder folder_;
  const std::vector<TrainingState::Part> parts_;
  const ShardForm form_;
  Arena buffer_;  // the file as it will be; or, where it is not asynchronous, what it goes through
  std::vector<uint32_t> sums_;  // of the file, where it is copied
  Phase phase_ = Phase::kIdle;
  TrainingProgress progress_;
  SnapshotPart written_;
  bool refused_ = false;         // before a thread had anything to do
  std::optional<Error> failed_;  // then, of rank 0: why
  std::string manifest_;         // rank 0's
  std::optional<Error> left_;    // likewise
  std::chrono::steady_clock::time_point began_;
  double copied_seconds_ = 0, thread_seconds_ = 0;
  const std::function<void()> write_, commit_;
  WriteThread thread_;  // last: it uses all the others
};

}  // namespace recollect
