#include "comm/nccl/group.h"

#include <algorithm>
#include <thread>

#include "engine/core/hash.h"

namespace recollect::nccl {
Group::Group(Session& session, Handle& handle, uint64_t key, std::vector<int> ranks, std::size_t device_bytes,
             int most_ctas)
    : NumberedCalls(session, handle, key, std::move(ranks)),
      made_of_bytes_(device_bytes),
      most_ctas_(most_ctas) {}

NumberedCalls& Group::pair(int from, int to) {
  std::shared_ptr<NumberedCalls>& calls = pairs_[{from, to}];
  if (!calls) {
    const uint64_t pedigree[] = {key(), static_cast<uint64_t>(from) + 1, static_cast<uint64_t>(to) + 1};
    calls = std::make_shared<NumberedCalls>(
        session_, handle_, hash_bytes(pedigree, sizeof pedigree) | 2,
        std::vector{ranks()[static_cast<std::size_t>(from)], ranks()[static_cast<std::size_t>(to)]});
    session_.watchdog().add(calls);
  }
  return *calls;
}

void Group::unwatch() {
  for (const auto& [ends, calls] : pairs_) session_.watchdog().remove(*calls);
  session_.watchdog().remove(*this);
}

std::size_t Group::device_bytes() {
  const uint64_t told = handle_.device_bytes() + (window_handle_ ? window_handle_->device_bytes() : 0);
  return told > 0 ? told : made_of_bytes_;
}

bool Group::shares(Shared what, std::initializer_list<Tensor> tensors) const {
  const auto within = [this](const Tensor& tensor) {
    const auto* begin = static_cast<const std::byte*>(tensor.data);
    return begin >= window_base_ && begin + tensor.bytes() <= window_base_ + window_bytes_;
  };
  return has_window() && window_for_ == what && std::all_of(tensors.begin(), tensors.end(), within);
}

bool Group::open_window(void* base, std::size_t bytes, Shared what) {
  Config config;
  if (what == Shared::kGathers) config.cta_policy = kZeroCtaPolicy;
  config.max_ctas = most_ctas_;
  const int rank =
      static_cast<int>(std::find(ranks().begin(), ranks().end(), session_.world().rank()) - ranks().begin());
  Handle& made = session_.make_handle();
  const auto split = [&](Comm parent) {
    return made.with(
        [&](Comm& child) { return session_.api().comm_split(parent, 0, rank, &child, &config); });
  };
  session_.settle(handle_, session_.begun(handle_, handle_.with(split)),
                  [] { return std::string("making a group for a window"); });
  window_handle_ = &made;
  const auto enter = [&](Comm comm) {
    return session_.api().comm_window_register(comm, base, bytes, &window_, kSymmetricWindow);
  };
  const bool ready =
      session_.settles(made, made.status()) && session_.settles(made, session_.begun(made, made.with(enter)));
  window_for_ = what;
  unread_ = session_.take_word();
  kernel_in_ = ~uint64_t{0};
  has_gathered_ = false;
  window_base_ = static_cast<std::byte*>(base);
  window_bytes_ = bytes;
  return ready && window_ != nullptr;
}

Result Group::launch_a_kernel(Comm comm, void* stream) {
  return session_.api().all_reduce(unread_, unread_, 1, DataType::kFloat32, RedOp::kMax, comm, stream);
}

void Group::close_window() {
  if (!window_handle_) return;
  window_handle_->abort();
  window_ = nullptr;
}

bool Group::take_leave(Handle& handle) {
  const auto deadline = std::chrono::steady_clock::now() + session_.watchdog().timeout();
  Result result = handle.with([this](Comm comm) { return session_.api().comm_finalize(comm); });
  while (result == Result::kInProgress && std::chrono::steady_clock::now() < deadline) {
    if (session_.watchdog().has_failed()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    result = handle.status();
  }
  if (result == Result::kSuccess) {
    handle.destroy();
  } else {
    handle.abort();
  }
  return true;
}

bool Group::leave_window() {
  if (!has_window()) return true;
  window_handle_->with([this](Comm comm) { return session_.api().comm_window_deregister(comm, window_); });
  window_ = nullptr;
  return take_leave(*window_handle_);
}

bool Group::take_leave() { return leave_window() && take_leave(handle_); }

}  // namespace recollect::nccl
