#include "comm/nccl/numbered_calls.h"

#include <algorithm>

namespace recollect::nccl {
namespace {

constexpr std::size_t kRemembered = 1024;

uint32_t state_of(const CollectiveCall& call) { return static_cast<uint32_t>(2 * call.sequence); }

}  // namespace

NumberedCalls::NumberedCalls(Session& session, Handle& handle, uint64_t key, std::vector<int> ranks)
    : session_(session),
      handle_(handle),
      key_(key),
      ranks_(std::move(ranks)),
      word_(session.take_word()),
      latest_(kRemembered) {}

uint32_t NumberedCalls::begin(CollectiveCall call, void* stream) {
  session_.watchdog().throw_if_failed();
  call.sequence = ++sequence_;
  {
    std::lock_guard lock(mutex_);
    latest_[call.sequence % kRemembered] = call;
    if (session_.runtime().capture_of(stream) != 0) captured_.push_back(call);
  }
  session_.runtime().write_word(word_, state_of(call), stream);
  return state_of(call);
}

void NumberedCalls::end(uint32_t state, void* stream) {
  session_.runtime().write_word(word_, state + 1, stream);
}

uint32_t NumberedCalls::state() const { return std::atomic_ref(*word_).load(std::memory_order_acquire); }

bool NumberedCalls::replays() const {
  std::lock_guard lock(mutex_);
  return !captured_.empty();
}

std::string NumberedCalls::describe(uint32_t state) const {
  std::lock_guard lock(mutex_);
  const auto is_it = [&](const CollectiveCall& call) { return state_of(call) == (state & ~1u); };
  if (state < 2) return "no collective yet";
  for (const auto* calls : {&latest_, &captured_}) {
    const auto found = std::find_if(calls->begin(), calls->end(), is_it);
    if (found != calls->end()) return found->to_string();
  }
  return "collective #" + std::to_string(state / 2);
}

std::string NumberedCalls::asynchronous_error() { return handle_.asynchronous_error(); }

}  // namespace recollect::nccl
