// One group of ranks in NCCL. Its collectives share one numbering. Tensors passed between two of its ranks
// are numbered separately for each pair of sender and receiver.
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
  // `ranks` are world ranks. `device_bytes`: the device memory that making the handle took. `most_ctas`:
  // limit on the thread blocks of its calls, as in Config.
  Group(Session& session, Handle& handle, uint64_t key, std::vector<int> ranks, std::size_t device_bytes,
        int most_ctas = kUndefined);

  // Enqueues a call on a stream; `enqueue` is a function (Comm) -> Result.
  template <typename Enqueue>
  void launch(const CollectiveCall& call, void* stream, Enqueue enqueue) {
    launch_on(handle_, call, stream, enqueue);
  }
  // The same for a gather whose tensors all lie in memory that the ranks share. Copy engines do it, without a
  // kernel of NCCL's. NCCL 2.28 to 2.32 make two assumptions that we must then fulfil.
  //
  // First, NCCL keeps the calls of a rank's handles in order with an event that a handle's kernels record.
  // That event may be waited for only where it was last recorded: in the same capture, or outside all
  // captures. So a kernel is launched before the first gather of every capture, and before the first one
  // after it that is not captured: a sum of one number that is never read.
  //
  // Second, the ranks signal their arrival by numbers in memory: 1, 2, 3 and so on, the odd ones before the
  // copy and the even ones after it. In a captured gather the number is 1 and is then cleared. A single
  // gather that is not captured leaves a 1 behind, and the first captured one would take it for the others'
  // arrival. So the first gather is done twice.
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
  // The same for a collective in such memory that uses a kernel. The kernel reads from and writes to the
  // other ranks' memory where their links allow it; otherwise it works as without a window.
  template <typename Enqueue>
  void launch_in_window(const CollectiveCall& call, void* stream, Enqueue enqueue) {
    launch_on(*window_handle_, call, stream, enqueue);
  }
  // Returns the calls that pass tensors from one rank of the group to another. They are made, and watched, on
  // first use.
  NumberedCalls& pair(int from, int to);
  // Removes the group from the watchdog.
  void unwatch();

  // Returns true if calls of this kind use a window that contains these tensors.
  bool shares(Shared what, std::initializer_list<Tensor> tensors) const;
  bool has_window() const { return window_ != nullptr; }
  // Makes a second handle with a window on this memory. Returns false if that does not work here, which has
  // no later cost.
  bool open_window(void* base, std::size_t bytes, Shared what);
  void close_window();
  bool leave_window();  // like take_leave(), for the window's handle only

  Handle& handle() { return handle_; }
  std::size_t device_bytes();
  // Waits until the other ranks no longer need this one, then frees everything. After the timeout it frees
  // everything anyway. Returns false if the rank fails meanwhile.
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
  uint32_t* unread_ = nullptr;         // operand of the window's own kernels; its value is never used
  uint64_t kernel_in_ = ~uint64_t{0};  // the capture in which a kernel was last launched; at first none
  bool has_gathered_ = false;          // through the window, at least once
  const std::size_t made_of_bytes_;
  const int most_ctas_;
  std::map<std::pair<int, int>, std::shared_ptr<NumberedCalls>> pairs_;  // from, to
};

}  // namespace recollect::nccl
