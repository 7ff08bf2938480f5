// What is known of a rank whose run fails, for whoever looks afterwards: status.<rank>.json in the output folder says
// how it failed, who stopped the run, and its latest 256 collectives. A rank that cannot fail by itself, because it does not come
// out of what it does while the others have given the run up, is seen by the watch of its process, which ends it.
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

// One rank, from before its first collective.
class RankStatus {
 public:
  RankStatus(Communicator& world, std::string folder);

  CallLog& log() const { return *log_; }
  const Communicator& world() const { return world_; }
  // It trains: from now on a failure leaves the file, and that of an earlier run goes.
  void begin();
  // Any thread; the first one counts.
  void write(ExitCode code, const std::string& failure) noexcept;

 private:
  Communicator& world_;
  const std::string folder_, path_;
  const std::shared_ptr<CallLog> log_;
  std::mutex mutex_;
  bool writes_ = false;
};

// The ranks of this process. Any thread may call.
class RankWatch {
 public:
  void add(RankStatus& status);
  // The rank has failed, or is done (kOk).
  void remove(RankStatus& status, ExitCode code, const std::string& failure);

  // Whether the others of some rank have given the run up.
  bool is_stopped() const;
  // Ends the process where that was long ago, and the rank is still busy.
  void look();
  // Before the process is ended: the files of all its ranks.
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
  std::optional<Failure> failure_;  // of a rank of this process, that was no other one's
};

}  // namespace recollect
