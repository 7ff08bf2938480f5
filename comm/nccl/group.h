// One group of ranks in NCCL: its collectives, numbered together, and beside them the tensors that two of its
// ranks pass, numbered for each sender and receiver by themselves.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/nccl/numbered_calls.h"

namespace recollect::nccl {

class Group final : public NumberedCalls {
 public:
  // `ranks` are those of the world. `device_bytes`: what making the handle took. `most_ctas`: of its calls, as in Config.
  Group(Session& session, Handle& handle, uint64_t key, std::vector<int> ranks, std::size_t device_bytes,
        int most_ctas = kUndefined);

  // Enqueues a call on a stream. enqueue(Comm) -> Result.
  template <typename Enqueue>
  void launch(const CollectiveCall& call, void* stream, Enqueue enqueue) {
    launch_on(handle_, call, stream, enqueue);
  }
  // The same for a gather all of whose tensors lie in memory that the ranks share: copy engines do it, without a kernel
  // of NCCL's. Two things that NCCL 2.28 to 2.32 take for granted are then up to us.
  //
  // NCCL keeps the calls of a rank's handles in order by an event that a handle's kernels record. It may be waited for
  // only where it was last recorded: in the same capture, or outside of all. So the first gather of every capture, and
  // the first one behind it that is not captured, has a kernel before it, a sum of one number that nobody reads.
  //
  // Ranks tell each other by numbers in memory that they have come, 1, 2, 3 and so on, the odd ones before the copy and
  // the even ones after it; where the gather is captured it is 1 and then cleared. A single gather that is not captured
  // leaves a 1 behind, which the first captured one takes for the others' coming. So the first gather is done twice.
  template <typename Enqueue>
  void launch_copies_in_window(const CollectiveCall& call, void* stream, Enqueue enqueue) {
    const uint32_t state = begin(call, stream);
    const auto carry_out = [&](auto what) {
      const Result result = window_handle_->with([&](Comm comm) { return what(comm); });
      session_.settle(*window_handle_, result, [&] { return describe(state); });
    };
    const uint64_t capture = session_.runtime().capture_of(stream);
    if (kernel_in_ != capture) carry_out([&](Comm comm) { return launch_a_kernel(comm, stream); });
    kernel_in_ = capture;
    if (!has_gathered_ && capture == 0) carry_out(enqueue);
    has_gathered_ = true;
    carry_out(enqueue);
    end(state, stream);
  }
  // The same for a collective in such memory by a kernel, which reads what the other ranks hold or writes what they are to
  // hold, where they are linked so that NCCL can, and else as outside of a window.
  template <typename Enqueue>
  void launch_in_window(const CollectiveCall& call, void* stream, Enqueue enqueue) {
    launch_on(*window_handle_, call, stream, enqueue);
  }
  // The tensors from one rank of the group to another one. Made, and watched, when first asked for.
  NumberedCalls& pair(int from, int to);
  // The watchdog sees no more of the group.
  void unwatch();

  // Whether calls of this kind are made through a window, and it has these tensors.
  bool shares(Shared what, std::initializer_list<Tensor> tensors) const;
  bool has_window() const { return window_ != nullptr; }
  // A second handle, with a window on this memory; false where that does not work here, which costs nothing
  // later.
  bool open_window(void* base, std::size_t bytes, Shared what);
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
  Result launch_a_kernel(Comm comm, void* stream);

  Handle* window_handle_ = nullptr;
  Window window_ = nullptr;
  Shared window_for_ = Shared::kGathers;
  std::byte* window_base_ = nullptr;
  std::size_t window_bytes_ = 0;
  uint32_t* unread_ = nullptr;         // what the window's own kernels add up
  uint64_t kernel_in_ = ~uint64_t{0};  // the capture that they were last launched in; at first in none
  bool has_gathered_ = false;          // through the window
  const std::size_t made_of_bytes_;
  const int most_ctas_;
  std::map<std::pair<int, int>, std::shared_ptr<NumberedCalls>> pairs_;  // from, to
};

}  // namespace recollect::nccl
