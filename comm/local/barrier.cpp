#include "comm/local/barrier.h"

#include <unistd.h>

#include <algorithm>

#include "comm/local/futex.h"
#include "engine/core/duration.h"

namespace recollect::local {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSpins = 300;  // some microseconds: longer spins take the core from others
// Ranks in the same call arrive sooner than a sleeper wakes, unless another process has their core.
constexpr int kSpinsWithinCall = 10 * kSpins;

int64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

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
      rank_(rank),
      timeout_(timeout),
      self_(this_process()),
      may_spin_(::sysconf(_SC_NPROCESSORS_ONLN) >= segment_->header().size) {}

void Barrier::wait(const CollectiveCall& call, CallTimes& times, bool all_have_begun) {
  times_ = &times;
  if (segment_->is_stopped()) throw_stopped(call);
  const uint32_t before = region_.turn.load(std::memory_order_acquire) >> 1;
  const int64_t now = nanoseconds();
  mine_.arrived.fetch_add(1, std::memory_order_release);
  if (arrive(before, now)) return;
  wait_until_passed(before, call, all_have_begun ? kSpinsWithinCall : kSpins);
  const Arrival& last = region_.last[before & 1];
  times.waited(last.rank, std::chrono::nanoseconds(last.when - now));
}

bool Barrier::arrive(uint32_t before, int64_t now) {
  if (region_.arrivals.fetch_add(1, std::memory_order_acq_rel) + 1 != static_cast<uint32_t>(region_.size))
    return false;
  region_.arrivals.store(0, std::memory_order_relaxed);
  region_.last[before & 1] = {now, rank_};
  region_.turn.fetch_add(2);
  // A sleeper counts itself before its last look at `turn`, so none is missed.
  if (region_.sleepers.load() != 0) futex_wake_all(region_.turn);
  return true;
}

void Barrier::wait_until_passed(uint32_t before, const CollectiveCall& call, int spins) {
  for (int i = 0; may_spin_ && i < spins; ++i) {
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
    // A rank may have passed, and then stopped all, since this one looked: the barrier itself was complete.
    if ((stopped || segment_->is_stopped()) && region_.turn.load() >> 1 == before) throw_stopped(call);
    if (Clock::now() >= std::min(next_look, deadline)) {
      look_for_the_lost(before, call, deadline);
      next_look = Clock::now() + kLookInterval;
    }
  }
}

bool Barrier::has_arrived(int rank) const {
  const uint32_t here = mine_.arrived.load(std::memory_order_relaxed);
  return segment_->rank_state(region_, rank).arrived.load(std::memory_order_acquire) == here;
}

bool Barrier::has_left(int rank) const {
  const RankState& state = segment_->rank_state(region_, rank);
  return !has_arrived(rank) && state.membership.load(std::memory_order_acquire) == Membership::kLeft;
}

// Also checks ranks that have arrived: one may have been killed half-way through arriving.
bool Barrier::has_died(int rank) const {
  const RankState& state = segment_->rank_state(region_, rank);
  const Membership membership = state.membership.load(std::memory_order_acquire);
  const bool known = membership == Membership::kJoined || membership == Membership::kLeft;
  return known && !(state.process == self_) && !may_be_alive(state.process);
}

template <typename Predicate>
std::vector<int> Barrier::ranks_that(Predicate predicate) const {
  std::vector<int> found;
  for (int r = 0; r < region_.size; ++r)
    if (predicate(r)) found.push_back(segment_->rank_state(region_, r).world_rank);
  return found;
}

// Looks for ranks that have died or left, or reports the late ones after the deadline. It allocates only if
// it finds some: a long wait for a slow rank is part of training.
void Barrier::look_for_the_lost(uint32_t before, const CollectiveCall& call, Clock::time_point deadline) {
  const bool late = Clock::now() >= deadline;
  bool lost = late;
  for (int r = 0; r < region_.size && !lost; ++r) lost = has_left(r) || has_died(r);
  // The barrier may have been passed while this rank looked.
  if (!lost || region_.turn.load() >> 1 != before) return;
  const auto dead = ranks_that([&](int r) { return has_died(r); });
  const auto left = ranks_that([&](int r) { return has_left(r); });
  const auto missing = ranks_that([&](int r) { return !has_arrived(r); });
  std::string reason =
      call.name() + " of rank " + std::to_string(mine_.world_rank) + times_->op_text() + ": ";
  if (!dead.empty()) {
    reason += "the process of " + name_ranks(dead) + " has ended";
  } else if (!left.empty()) {
    reason += name_ranks(left) + " has left the group";
  } else {
    reason += blame(call, missing);
  }
  segment_->stop(reason);
  throw_stopped(call);
}

std::string Barrier::blame(const CollectiveCall& call, std::vector<int> missing) const {
  if (missing.empty())
    return "a rank that was about to arrive did not come within " + duration_text(timeout_);
  const std::vector<RankWait> waits = segment_->waits();
  const auto group = ranks_that([](int) { return true; });
  for (const RankWait& wait : waits)
    if (wait.rank == mine_.world_rank && wait.call.sequence == call.sequence && wait.missing == missing)
      return who_is_late(wait, waits, timeout_);
  const RankWait mine{mine_.world_rank, call, {}, group, std::move(missing)};
  return who_is_late(mine, waits, timeout_);
}

void Barrier::throw_stopped(const CollectiveCall& call) const {
  throw Error(ExitCode::kPeerLost,
              call.name() + " on rank " + std::to_string(mine_.world_rank) + times_->op_text() +
                  " cannot finish: " + segment_->stop_reason(),
              "look for the first error among the other ranks' messages");
}

}  // namespace recollect::local
