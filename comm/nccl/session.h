// What all NCCL communicators of one rank share, and the handles that NCCL gave it. No call into NCCL waits
// for other ranks: handles are non-blocking, and we poll until NCCL is done, the time is up, or the watchdog
// reports a failure. Only one thread at a time is inside NCCL with a handle, so that the handle can be
// aborted safely.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/device/device_runtime.h"
#include "comm/device/watchdog.h"
#include "comm/nccl/api.h"

namespace recollect::nccl {

class Handle {
 public:
  explicit Handle(const Api& api) : api_(api) {}

  // Calls function(Comm&) -> Result, unless the handle has been aborted. The function may create the handle:
  // NCCL then writes it, possibly only when the creating call completes, so a Handle never moves.
  template <typename Function>
  Result with(Function function) {
    std::lock_guard lock(mutex_);
    return aborted_ ? Result::kRemoteError : function(comm_);
  }
  Result status();
  std::string last_error();
  // Returns an error that NCCL found in the background; empty if there is none or another thread is inside
  // NCCL.
  std::string asynchronous_error();
  void abort() noexcept;    // frees everything; the handle is unusable afterwards
  void destroy() noexcept;  // after it has been finalised
  uint64_t device_bytes();  // 0 if this NCCL version cannot tell

 private:
  const Api& api_;
  std::mutex mutex_;
  Comm comm_ = nullptr;
  bool aborted_ = false;
};

// Returns the exit code of a rank that gets this NCCL error.
ExitCode exit_code_of(Result result, const std::string& last_error);

class Session {
 public:
  // Collective over `world`, which must outlive the session. The session itself fills in `abort` and
  // `stop_reason` of `settings`.
  Session(Api api, std::shared_ptr<device::DeviceRuntime> runtime, Communicator& world,
          device::Watchdog::Settings settings, bool threads = false);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Api& api() const { return api_; }
  device::DeviceRuntime& runtime() { return *runtime_; }
  const std::shared_ptr<device::DeviceRuntime>& shared_runtime() const { return runtime_; }
  Communicator& world() { return world_; }
  device::Watchdog& watchdog() { return watchdog_; }

  // NCCL may deadlock if one process captures for several devices.
  bool capturable() const { return !threads_; }

  Handle& make_handle();
  uint32_t* take_word();  // for the progress of one group; never returned

  // Returns the handle's own state to wait for, after a call whose success may only mean that it has begun,
  // such as a split or the registration of a window.
  Result begun(Handle& handle, Result result) {
    return result == Result::kSuccess ? handle.status() : result;
  }
  // Polls until the work begun on `handle` is done. Throws the watchdog's error, kPeerLost when the time is
  // up, or NCCL's own error. Every rank learns of what it throws. `doing` is the subject of the message.
  template <typename Describe>
  void settle(Handle& handle, Result result, Describe doing) {
    if (result != Result::kSuccess) settle_slowly(handle, result, doing());
  }
  // The same for optional work: returns false instead of failing.
  bool settles(Handle& handle, Result result);

 private:
  Result await(Handle& handle, Result result);
  void settle_slowly(Handle& handle, Result result, const std::string& doing);
  void abort_all(const std::string& why);

  const Api api_;
  const std::shared_ptr<device::DeviceRuntime> runtime_;
  Communicator& world_;
  const bool threads_;
  std::shared_ptr<uint32_t> words_;
  std::size_t words_taken_ = 0;
  std::mutex handles_mutex_;
  std::vector<std::unique_ptr<Handle>> handles_;  // parents before their children
  device::ProgressBoard board_;
  device::Watchdog watchdog_;
};

}  // namespace recollect::nccl
