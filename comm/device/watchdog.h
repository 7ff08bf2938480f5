// The watchdog makes sure that no rank waits forever and that one rank's failure becomes the failure of all.
// A few times a second it looks how far the calls of this rank's groups have come, publishes that to the
// other ranks, and looks at their progress. It never calls the device, so it cannot hang with it.
//
// A failure is thrown by the rank's next call. Meanwhile the work in progress is aborted, so that a thread
// that waits for a stream returns. If no thread notices the failure within the grace period, the process is
// ended.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/device/progress_board.h"

namespace recollect::device {

// Writes the reason to standard error and ends the process with status kPeerLost, without any clean-up.
[[noreturn]] void end_process(const std::string& why);

// A group of ranks as the watchdog sees it. The watchdog's thread calls these functions.
class Watched {
 public:
  virtual ~Watched() = default;
  virtual uint64_t key() const = 0;                   // the group's number on the board
  virtual const std::vector<int>& ranks() const = 0;  // as ranks of the world
  virtual uint32_t state() const = 0;                 // as Progress::state, counted since the group was made
  virtual bool replays() const = 0;                   // some calls may be repeated under their old numbers
  virtual std::string describe(uint32_t state) const = 0;  // the call: "all_reduce #17 (sum, f32, 64 bytes)"
  virtual std::string asynchronous_error() = 0;            // empty if there is none
};

class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;

  struct Settings {
    std::chrono::milliseconds timeout{};
    std::chrono::milliseconds grace = std::chrono::seconds(10);
    // Aborts the work in progress. Called once, on its own thread, because it may wait for the very thing
    // that hangs.
    std::function<void(const std::string& why)> abort;
    // Another source of failures, which may know of other nodes too; may be empty.
    std::function<std::optional<std::string>()> stop_reason = {};
    // Must not return, except in tests.
    std::function<void(const std::string& why)> end_process = device::end_process;
  };

  // `board` must outlive the watchdog.
  Watchdog(ProgressBoard& board, Settings settings);
  ~Watchdog();  // if the rank has failed, waits for the abort
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void start();                      // starts the thread that looks regularly
  void look(Clock::time_point now);  // looks once

  void add(std::shared_ptr<Watched> group);
  void remove(const Watched& group);
  // Called when the streams report that all calls so far are done, equally often on all ranks. It separates
  // the rounds of replayed calls.
  void completed();

  // Called by a rank's thread that is about to end with an error; tells the other ranks. Only the first
  // reason is kept.
  void fail(const std::string& reason);
  bool has_failed() const { return failed_.load(std::memory_order_acquire); }
  void throw_if_failed();  // throws Error kPeerLost with the reason
  std::chrono::milliseconds timeout() const { return settings_.timeout; }

 private:
  struct Entry {
    std::shared_ptr<Watched> group;
    uint32_t round = 0;
    // The state when all work was done. While the state has this value, nothing has happened since.
    std::optional<uint32_t> idle = {};
    Progress seen = {};
    Clock::time_point since;

    Progress progress();
  };

  std::optional<std::string> known_elsewhere() const;
  void fail_locked(const std::string& reason);
  void find_failures(Clock::time_point now);
  void judge(Entry& entry, Clock::time_point now);
  void enforce(Clock::time_point now);
  void loop();

  ProgressBoard& board_;
  const Settings settings_;
  const std::chrono::milliseconds interval_;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::vector<Entry> entries_;
  std::string reason_;
  std::optional<Clock::time_point> deadline_;  // the failure must have been noticed by then
  bool ended_ = false;
  std::atomic<bool> failed_ = false, noted_ = false, aborted_ = false;
  std::thread thread_, aborter_;
};

}  // namespace recollect::device
