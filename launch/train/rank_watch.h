// Writes the status of a rank when a run fails: status.<rank>.json in the output folder says how it failed,
// which rank stopped the run, and its latest 256 collectives. If the other ranks have given up the run and a
// rank hangs, the watch of its process ends it.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/call_log.h"
#include "comm/communicator.h"
#include "engine/core/error.h"

namespace recollect {

// The status of one rank. Construct it before the first collective.
class RankStatus {
 public:
  RankStatus(Communicator& world, std::string folder);

  CallLog& log() const { return *log_; }
  const Communicator& world() const { return world_; }
  // The training begins: from now on a failure writes the file; removes that of an earlier run.
  void begin();
  // Any thread may call it; only the first call counts.
  void write(ExitCode code, const std::string& failure) noexcept;

 private:
  Communicator& world_;
  const std::string folder_, path_;
  const std::shared_ptr<CallLog> log_;
  std::mutex mutex_;
  bool writes_ = false;
};

// Watches the ranks of this process. Any thread may call it.
class RankWatch {
 public:
  void add(RankStatus& status);
  // The rank has failed, or is done (kOk).
  void remove(RankStatus& status, ExitCode code, const std::string& failure);

  // Whether other ranks have given up the run.
  bool is_stopped() const;
  // Ends the process if that was long ago and a rank is still busy.
  void look();
  // Writes the files of all ranks of this process, before it is ended.
  void write_all(ExitCode code, const std::string& failure) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Failure {
    ExitCode code;
    std::string text;
  };

  mutable std::mutex mutex_;
  std::vector<RankStatus*> ranks_;
  std::optional<Clock::time_point> stopped_since_;
  std::optional<Failure> failure_;  // the first failure in this process that was not caused by another rank
};

}  // namespace recollect
