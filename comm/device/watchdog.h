// Sees to it that a rank does not wait for ever, and that one rank's failure is everyone's. It looks, a few
// times a second, at how far the calls of this rank's groups have come, shows that to the other ranks, and
// looks at theirs. It asks nothing of a device, and so it cannot be stuck with one.
//
// A failure is thrown by the rank's next call. Meanwhile what is under way is aborted, so that a thread which
// waits for a stream comes back. Where no thread takes note within the grace period, the process is ended.
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

// Says why on standard error and ends the process with the status kPeerLost, cleaning up nothing.
[[noreturn]] void end_process(const std::string& why);

// A group of ranks as the watchdog sees it. Its methods are called by the watchdog's thread.
class Watched {
 public:
  virtual ~Watched() = default;
  virtual uint64_t key() const = 0;                   // the group's number on the board
  virtual const std::vector<int>& ranks() const = 0;  // as ranks of the world
  virtual uint32_t state() const = 0;                 // as Progress::state, since the group was made
  virtual bool replays() const = 0;                   // some calls may come again under their old numbers
  virtual std::string describe(uint32_t state) const = 0;  // the call: "all_reduce #17 (sum, f32, 64 bytes)"
  virtual std::string asynchronous_error() = 0;            // empty where there is none
};

class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;

  struct Settings {
    std::chrono::milliseconds timeout{};
    std::chrono::milliseconds grace = std::chrono::seconds(10);
    // Aborts what is under way. Once, on a thread of its own: it may wait for the very thing that is stuck.
    std::function<void(const std::string& why)> abort;
    // What else knows of failures, beyond this node too; may be empty.
    std::function<std::optional<std::string>()> stop_reason = {};
    // Must not return, except in tests.
    std::function<void(const std::string& why)> end_process = device::end_process;
  };

  // `board` must outlive it.
  Watchdog(ProgressBoard& board, Settings settings);
  ~Watchdog();  // where the rank has failed, after the abort
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void start();                      // from here on a thread looks by itself
  void look(Clock::time_point now);  // once

  void add(std::shared_ptr<Watched> group);
  void remove(const Watched& group);
  // All calls so far are done, as the streams say. What tells replays apart: told equally often on all ranks.
  void completed();

  // Of a rank's thread, which is on its way out: tells the others. The first reason counts.
  void fail(const std::string& reason);
  bool has_failed() const { return failed_.load(std::memory_order_acquire); }
  void throw_if_failed();  // Error kPeerLost with the reason
  std::chrono::milliseconds timeout() const { return settings_.timeout; }

 private:
  struct Entry {
    std::shared_ptr<Watched> group;
    uint32_t round = 0;
    // The state when everything was done: nothing has happened while it stays.
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
  std::optional<Clock::time_point> deadline_;  // by which the failure must have been taken note of
  bool ended_ = false;
  std::atomic<bool> failed_ = false, noted_ = false, aborted_ = false;
  std::thread thread_, aborter_;
};

}  // namespace recollect::device
