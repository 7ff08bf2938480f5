// One group of ranks in NCCL: its collectives, numbered together, and beside them the tensors that two of its
// ranks pass, numbered for each sender and receiver by themselves.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/nccl/numbered_calls.h"

namespace recollect::nccl {

class Group final : public NumberedCalls {
 public:
  // `ranks` are those of the world. `device_bytes`: what making the handle took.
  Group(Session& session, Handle& handle, uint64_t key, std::vector<int> ranks, std::size_t device_bytes);

  // Enqueues a call on a stream. enqueue(Comm) -> Result.
  template <typename Enqueue>
  void launch(const CollectiveCall& call, void* stream, Enqueue enqueue) {
    launch_on(handle_, call, stream, enqueue);
  }
  // The same for a call all of whose tensors lie in memory that the ranks share.
  template <typename Enqueue>
  void launch_in_window(const CollectiveCall& call, void* stream, Enqueue enqueue) {
    launch_on(*window_handle_, call, stream, enqueue);
  }
  // The tensors from one rank of the group to another one. Made, and watched, when first asked for.
  NumberedCalls& pair(int from, int to);
  // The watchdog sees no more of the group.
  void unwatch();

  bool shares(const void* data, std::size_t bytes) const;
  bool has_window() const { return window_ != nullptr; }
  // A second handle, with a window on this memory; false where that does not work here, which costs nothing
  // later.
  bool open_window(void* base, std::size_t bytes);
  void close_window();
  bool leave_window();  // as take_leave(), of that handle alone

  Handle& handle() { return handle_; }
  std::size_t device_bytes();
  // Waits until the other ranks have no more need of this one, and gives everything back. Who waits in vain
  // goes all the same. False where the rank fails meanwhile.
  bool take_leave();

 private:
  template <typename Enqueue>
  void launch_on(Handle& handle, const CollectiveCall& call, void* stream, Enqueue enqueue) {
    const uint32_t state = begin(call, stream);
    const Result result = handle.with([&](Comm comm) { return enqueue(comm); });
    session_.settle(handle, result, [&] { return describe(state); });
    end(state, stream);
  }
  bool take_leave(Handle& handle);

  Handle* window_handle_ = nullptr;
  Window window_ = nullptr;
  std::byte* window_base_ = nullptr;
  std::size_t window_bytes_ = 0;
  const std::size_t made_of_bytes_;
  std::map<std::pair<int, int>, std::shared_ptr<NumberedCalls>> pairs_;  // from, to
};

}  // namespace recollect::nccl
