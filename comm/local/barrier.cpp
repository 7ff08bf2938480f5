#include "comm/local/barrier.h"

#include <unistd.h>

#include <algorithm>

#include "comm/local/futex.h"

namespace recollect::local {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookInterval{200};
constexpr int kSpins = 2000;  // some tens of microseconds

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Barrier::Barrier(std::shared_ptr<Segment> segment, Region& region, int rank,
                 std::chrono::milliseconds timeout)
    : segment_(std::move(segment)),
      region_(region),
      mine_(segment_->rank_state(region, rank)),
      timeout_(timeout),
      self_(this_process()),
      spins_(::sysconf(_SC_NPROCESSORS_ONLN) >= segment_->header().size ? kSpins : 0) {}

void Barrier::wait(const CollectiveCall& call) {
  if (segment_->is_stopped()) throw_stopped(call);
  const uint32_t before = region_.turn.load(std::memory_order_acquire) >> 1;
  mine_.arrived.fetch_add(1, std::memory_order_release);
  if (region_.arrivals.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<uint32_t>(region_.size)) {
    region_.arrivals.store(0, std::memory_order_relaxed);
    region_.turn.fetch_add(2);
    // Sleepers count themselves before they look at `turn` a last time, so none is overlooked.
    if (region_.sleepers.load() != 0) futex_wake_all(region_.turn);
    return;
  }
  for (int i = 0; i < spins_; ++i) {
    if (region_.turn.load(std::memory_order_acquire) >> 1 != before) return;
    relax();
  }
  sleep_until_passed(before, call);
}

void Barrier::sleep_until_passed(uint32_t before, const CollectiveCall& call) {
  const auto deadline = Clock::now() + timeout_;
  auto next_look = Clock::now() + kLookInterval;
  while (true) {
    region_.sleepers.fetch_add(1);
    const uint32_t turn = region_.turn.load();
    const bool passed = turn >> 1 != before;
    const bool stopped = (turn & 1) != 0;
    const auto now = Clock::now();
    if (!passed && !stopped && now < next_look) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::min(next_look, deadline) - now);
      if (left.count() > 0) futex_wait(region_.turn, turn, left);
    }
    region_.sleepers.fetch_sub(1);
    if (passed) return;
    if (stopped || segment_->is_stopped()) throw_stopped(call);
    if (Clock::now() >= std::min(next_look, deadline)) {
      look_for_the_lost(before, call, deadline);
      next_look = Clock::now() + kLookInterval;
    }
  }
}

std::vector<int> Barrier::missing_ranks() const {
  std::vector<int> missing;
  const uint32_t here = mine_.arrived.load(std::memory_order_relaxed);
  for (int r = 0; r < region_.size; ++r)
    if (segment_->rank_state(region_, r).arrived.load(std::memory_order_acquire) != here)
      missing.push_back(r);
  return missing;
}

void Barrier::look_for_the_lost(uint32_t before, const CollectiveCall& call, Clock::time_point deadline) {
  std::vector<int> dead, left, late;
  for (int r : missing_ranks()) {
    const RankState& state = segment_->rank_state(region_, r);
    late.push_back(state.world_rank);
    if (state.membership.load(std::memory_order_acquire) == Membership::kLeft)
      left.push_back(state.world_rank);
  }
  // Ranks that have arrived count too: one may have been killed half-way through arriving.
  for (int r = 0; r < region_.size; ++r) {
    const RankState& state = segment_->rank_state(region_, r);
    const Membership membership = state.membership.load(std::memory_order_acquire);
    const bool known = membership == Membership::kJoined || membership == Membership::kLeft;
    if (known && !(state.process == self_) && !may_be_alive(state.process)) dead.push_back(state.world_rank);
  }
  const std::string during = call.name() + " of rank " + std::to_string(mine_.world_rank) + ": ";
  std::string lost;
  if (!dead.empty()) {
    lost = during + "the process of " + name_ranks(dead) + " has ended";
  } else if (!left.empty()) {
    lost = during + name_ranks(left) + " has left the group";
  } else if (Clock::now() >= deadline) {
    const std::string who = late.empty() ? "a rank that was about to arrive" : name_ranks(late);
    lost = during + who + " did not come within " + std::to_string(timeout_.count()) + " ms";
  }
  // The barrier may have been passed while this rank was looking.
  if (lost.empty() || region_.turn.load() >> 1 != before) return;
  segment_->stop(lost);
  throw_stopped(call);
}

void Barrier::throw_stopped(const CollectiveCall& call) const {
  throw Error(ExitCode::kPeerLost,
              call.name() + " on rank " + std::to_string(mine_.world_rank) +
                  " cannot finish: " + segment_->stop_reason(),
              "look for the first error among the other ranks' messages");
}

}  // namespace recollect::local
