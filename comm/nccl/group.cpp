#include "comm/nccl/group.h"

#include <algorithm>
#include <thread>

namespace recollect::nccl {
namespace {

constexpr std::size_t kRemembered = 1024;

uint32_t state_of(const CollectiveCall& call) { return static_cast<uint32_t>(2 * call.sequence); }

}  // namespace

Group::Group(Session& session, Handle& handle, uint64_t key, std::vector<int> ranks, std::size_t device_bytes)
    : session_(session),
      handle_(handle),
      key_(key),
      ranks_(std::move(ranks)),
      made_of_bytes_(device_bytes),
      word_(session.take_word()),
      latest_(kRemembered) {}

uint32_t Group::begin(CollectiveCall& call, void* stream) {
  session_.watchdog().throw_if_failed();
  call.sequence = ++sequence_;
  {
    std::lock_guard lock(mutex_);
    latest_[call.sequence % kRemembered] = call;
    if (session_.runtime().is_capturing(stream)) captured_.push_back(call);
  }
  session_.runtime().write_word(word_, state_of(call), stream);
  return state_of(call);
}

uint32_t Group::state() const { return std::atomic_ref(*word_).load(std::memory_order_acquire); }

bool Group::replays() const {
  std::lock_guard lock(mutex_);
  return !captured_.empty();
}

std::string Group::describe(uint32_t state) const {
  std::lock_guard lock(mutex_);
  const auto is_it = [&](const CollectiveCall& call) { return state_of(call) == (state & ~1u); };
  if (state < 2) return "no collective yet";
  for (const auto* calls : {&latest_, &captured_}) {
    const auto found = std::find_if(calls->begin(), calls->end(), is_it);
    if (found != calls->end()) return found->to_string();
  }
  return "collective #" + std::to_string(state / 2);
}

std::string Group::asynchronous_error() { return handle_.asynchronous_error(); }

std::size_t Group::device_bytes() {
  const uint64_t told = handle_.device_bytes() + (window_handle_ ? window_handle_->device_bytes() : 0);
  return told > 0 ? told : made_of_bytes_;
}

bool Group::shares(const void* data, std::size_t bytes) const {
  const auto* begin = static_cast<const std::byte*>(data);
  return has_window() && begin >= window_base_ && begin + bytes <= window_base_ + window_bytes_;
}

bool Group::open_window(void* base, std::size_t bytes) {
  Config config;
  config.cta_policy = kZeroCtaPolicy;
  const int rank =
      static_cast<int>(std::find(ranks_.begin(), ranks_.end(), session_.world().rank()) - ranks_.begin());
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
  window_base_ = static_cast<std::byte*>(base);
  window_bytes_ = bytes;
  return ready && window_ != nullptr;
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
