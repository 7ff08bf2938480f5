// What all NCCL communicators of one rank share, and the handles that NCCL gave it. No call into NCCL waits
// for other ranks: handles are made non-blocking, and we ask again until NCCL is done, the time is up, or the
// watchdog has heard of a failure. One thread at a time is inside NCCL with a handle, so that it can be
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

  // function(Comm&) -> Result, unless the handle has been aborted. It may make the handle: NCCL writes it,
  // perhaps only when the call that makes it is done, which is why handles stay where they are.
  template <typename Function>
  Result with(Function function) {
    std::lock_guard lock(mutex_);
    return aborted_ ? Result::kRemoteError : function(comm_);
  }
  Result status();
  std::string last_error();
  // What NCCL found out in the background; empty where nothing is wrong or somebody is inside.
  std::string asynchronous_error();
  void abort() noexcept;    // gives everything back; nothing works afterwards
  void destroy() noexcept;  // after it was finalised
  uint64_t device_bytes();  // 0 where this NCCL does not say

 private:
  const Api& api_;
  std::mutex mutex_;
  Comm comm_ = nullptr;
  bool aborted_ = false;
};

// How an error of NCCL ends the rank that has it.
ExitCode exit_code_of(Result result, const std::string& last_error);

class Session {
 public:
  // Collective over `world`, which must outlive it. Of `settings`, what to abort and whom to ask is
  // the session's own business.
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

  // NCCL may deadlock where a process captures for several devices.
  bool capturable() const { return !threads_; }

  Handle& make_handle();
  uint32_t* take_word();  // for the progress of one group; all stay taken

  // What is to be waited for after a call whose success may mean no more than that it was begun, as that of a
  // split and of a window's registration does: the handle's own state.
  Result begun(Handle& handle, Result result) {
    return result == Result::kSuccess ? handle.status() : result;
  }
  // Asks until what has been begun on `handle` is done. Errors: what the watchdog knows, kPeerLost when the
  // time is up, and NCCL's own. Whatever it throws, all ranks hear of it. `doing` makes the message's
  // subject.
  template <typename Describe>
  void settle(Handle& handle, Result result, Describe doing) {
    if (result != Result::kSuccess) settle_slowly(handle, result, doing());
  }
  // The same, but says false instead of failing: for what can be done without.
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
