// One group of ranks in NCCL, as the watchdog sees it: every call is numbered and remembered, and the stream
// itself notes when it begins and when it is done, in a word of host memory. That also works when the call
// was recorded in a CUDA graph and is replayed.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "comm/collective_call.h"
#include "comm/nccl/session.h"

namespace recollect::nccl {

class Group final : public device::Watched {
 public:
  // `ranks` are those of the world. `device_bytes`: what making the handle took.
  Group(Session& session, Handle& handle, uint64_t key, std::vector<int> ranks, std::size_t device_bytes);

  // Enqueues a call on a stream. enqueue(Comm) -> Result.
  template <typename Enqueue>
  void launch(CollectiveCall call, void* stream, Enqueue enqueue) {
    launch_on(handle_, call, stream, enqueue);
  }
  // The same for a call all of whose tensors lie in memory that the ranks share.
  template <typename Enqueue>
  void launch_in_window(CollectiveCall call, void* stream, Enqueue enqueue) {
    launch_on(*window_handle_, call, stream, enqueue);
  }
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

  uint64_t key() const override { return key_; }
  const std::vector<int>& ranks() const override { return ranks_; }
  uint32_t state() const override;
  bool replays() const override;
  std::string describe(uint32_t state) const override;
  std::string asynchronous_error() override;

 private:
  template <typename Enqueue>
  void launch_on(Handle& handle, CollectiveCall call, void* stream, Enqueue enqueue) {
    const uint32_t state = begin(call, stream);
    const Result result = handle.with([&](Comm comm) { return enqueue(comm); });
    session_.settle(handle, result, [&] { return describe(state); });
    session_.runtime().write_word(word_, state + 1, stream);
  }
  uint32_t begin(CollectiveCall& call, void* stream);
  bool take_leave(Handle& handle);

  Session& session_;
  Handle& handle_;
  Handle* window_handle_ = nullptr;
  Window window_ = nullptr;
  std::byte* window_base_ = nullptr;
  std::size_t window_bytes_ = 0;
  const uint64_t key_;
  const std::vector<int> ranks_;
  const std::size_t made_of_bytes_;
  uint32_t* const word_;
  uint64_t sequence_ = 0;

  mutable std::mutex mutex_;              // of what follows, which the watchdog reads
  std::vector<CollectiveCall> latest_;    // call k at k modulo its size
  std::vector<CollectiveCall> captured_;  // never forgotten: they may come again
};

}  // namespace recollect::nccl
