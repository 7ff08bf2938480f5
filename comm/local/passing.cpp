#include "comm/local/passing.h"

#include <algorithm>
#include <cstring>

#include "comm/local/futex.h"

namespace recollect::local {
namespace {

constexpr uint32_t kSlots = 2;

uint64_t address_of(uint64_t number, int rank) { return number << 32 | static_cast<uint32_t>(rank + 1); }

}  // namespace

Passing::Passing(Segment& segment, Region& region, int rank, std::chrono::milliseconds timeout,
                 CallTimes& times)
    : segment_(segment),
      region_(region),
      mine_(segment.rank_state(region, rank)),
      rank_(rank),
      timeout_(timeout),
      times_(times) {}

Passing::Side Passing::side_of(const Parcel& parcel, const CollectiveCall& call,
                               std::atomic<uint64_t>& awaits) const {
  if (!parcel) return {};
  return {.data = static_cast<std::byte*>(parcel.tensor.data),
          .bytes = parcel.tensor.bytes(),
          .peer = parcel.peer,
          .call = call,
          .awaits = &awaits,
          .is_done = false};
}

uint32_t Passing::pieces(const Side& side) const {
  return static_cast<uint32_t>((side.bytes + region_.chunk_bytes - 1) / region_.chunk_bytes);
}

std::size_t Passing::piece_bytes(const Side& side) const {
  const std::size_t begin = side.moved * region_.chunk_bytes;
  return std::min<std::size_t>(region_.chunk_bytes, side.bytes - begin);
}

void Passing::ring(int peer) {
  state(peer).bell.fetch_add(1, std::memory_order_release);
  futex_wake_all(state(peer).bell);
}

// The first peer to come ends the wait for it; the second one ends the rest of the wait.
void Passing::meet(Side& side) {
  const auto now = Clock::now();
  times_.waited(side.peer, now - since_);
  since_ = now;
  side.has_met = true;
  say_nothing(side);
}

void Passing::say_awaited(const Side& side) {
  side.awaits->store(address_of(side.call.sequence, side.peer), std::memory_order_relaxed);
}

void Passing::post(int first_slot) {
  Outbox& box = mine_.outbox;
  box.sent = out_.call;
  box.first_slot = first_slot;
  box.is_answered.store(0, std::memory_order_relaxed);
  box.filled.store(0, std::memory_order_relaxed);
  box.taken.store(0, std::memory_order_relaxed);
  box.address.store(address_of(out_.call.sequence, out_.peer), std::memory_order_release);
  ring(out_.peer);
}

bool Passing::advance_out() {
  if (out_.is_done) return false;
  Outbox& box = mine_.outbox;
  bool changed = false;
  if (!out_.has_met) {
    if (box.is_answered.load(std::memory_order_acquire) == 0) return false;
    meet(out_);
    check_match(out_.call, mine_.world_rank, box.answer);
    changed = true;
  }
  const uint32_t taken = box.taken.load(std::memory_order_acquire);
  while (out_.moved < pieces(out_) && out_.moved - taken < kSlots) {
    const int slot = (box.first_slot + static_cast<int>(out_.moved % kSlots)) % kBuffers;
    std::memcpy(segment_.slot(region_, rank_, slot), out_.data + out_.moved * region_.chunk_bytes,
                piece_bytes(out_));
    box.filled.store(++out_.moved, std::memory_order_release);
    ring(out_.peer);
    changed = true;
  }
  out_.is_done = taken == pieces(out_);
  if (!changed && !out_.is_done) return false;
  say_nothing(out_);
  return true;
}

// The sender's record is read before the answer is given, because a sender without pieces may reuse the
// outbox from then on.
bool Passing::advance_in() {
  if (in_.is_done) return false;
  Outbox& box = state(in_.peer).outbox;
  bool changed = false;
  if (!in_.has_met) {
    if (box.address.load(std::memory_order_acquire) != address_of(in_.call.sequence, rank_)) return false;
    const CollectiveCall sent = box.sent;
    box.answer = in_.call;
    box.is_answered.store(1, std::memory_order_release);
    ring(in_.peer);
    meet(in_);
    check_match(in_.call, mine_.world_rank, sent);
    changed = true;
  }
  while (in_.moved < pieces(in_) && in_.moved < box.filled.load(std::memory_order_acquire)) {
    const int slot = (box.first_slot + static_cast<int>(in_.moved % kSlots)) % kBuffers;
    std::memcpy(in_.data + in_.moved * region_.chunk_bytes, segment_.slot(region_, in_.peer, slot),
                piece_bytes(in_));
    box.taken.store(++in_.moved, std::memory_order_release);
    ring(in_.peer);
    changed = true;
  }
  in_.is_done = in_.moved == pieces(in_);
  if (!changed && !in_.is_done) return false;
  say_nothing(in_);
  return true;
}

void Passing::run(const Parcel& out, const CollectiveCall& send, const Parcel& in,
                  const CollectiveCall& receive, int first_slot) {
  out_ = side_of(out, send, mine_.awaits_taker);
  in_ = side_of(in, receive, mine_.awaits_giver);
  since_ = Clock::now();
  if (segment_.is_stopped()) throw_stopped();
  if (!out_.is_done) post(first_slot);
  auto deadline = Clock::now() + timeout_, next_look = Clock::now() + kLookInterval;
  while (!out_.is_done || !in_.is_done) {
    const uint32_t heard = mine_.bell.load(std::memory_order_acquire);
    const bool sent = advance_out(), received = advance_in();
    if (sent || received) {
      deadline = Clock::now() + timeout_;
      continue;
    }
    if (segment_.is_stopped()) {  // perhaps by a peer that did its part after this rank looked
      if (advance_out() || advance_in()) continue;
      throw_stopped();
    }
    const auto until = std::min(next_look, deadline);
    wait_for_bell(heard, std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()));
    if (Clock::now() < until) continue;
    next_look = Clock::now() + kLookInterval;
    const std::string lost = why_lost(Clock::now() >= deadline);
    // The awaited data may have come while this rank looked.
    if (lost.empty() || advance_out() || advance_in()) continue;
    segment_.stop(call().name() + " of rank " + std::to_string(mine_.world_rank) + times_.op_text() + ": " +
                  lost);
    throw_stopped();
  }
}

template <typename F>
void Passing::for_each_open_side(F f) const {
  for (const Side* side : {&out_, &in_})
    if (!side->is_done) f(*side);
}

void Passing::wait_for_bell(uint32_t heard, std::chrono::milliseconds longest) {
  if (longest.count() <= 0) return;
  for_each_open_side(say_awaited);
  futex_wait(mine_.bell, heard, longest);
}

std::vector<int> Passing::awaited() const {
  std::vector<int> ranks;
  for_each_open_side([&](const Side& side) { ranks.push_back(state(side.peer).world_rank); });
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::string Passing::why_lost(bool late) const {
  const ProcessIdentity self = this_process();
  std::string why;
  for_each_open_side([&](const Side& side) {
    const RankState& peer = state(side.peer);
    const Membership membership = peer.membership.load(std::memory_order_acquire);
    const bool known = membership == Membership::kJoined || membership == Membership::kLeft;
    const std::string name = "rank " + std::to_string(peer.world_rank);
    if (known && !(peer.process == self) && !may_be_alive(peer.process)) {
      why = "the process of " + name + " has ended";
    } else if (membership == Membership::kLeft && why.empty()) {
      why = name + " has left the group";
    }
  });
  if (!why.empty() || !late) return why;
  RankWait wait{
      .rank = mine_.world_rank, .call = call(), .before = call(), .group = awaited(), .missing = awaited()};
  --wait.before.sequence;
  wait.group.push_back(mine_.world_rank);
  return who_is_late(wait, segment_.waits(), timeout_);
}

void Passing::throw_stopped() const {
  throw Error(ExitCode::kPeerLost,
              call().name() + " on rank " + std::to_string(mine_.world_rank) + times_.op_text() +
                  " cannot finish: " + segment_.stop_reason(),
              "look for the first error among the other ranks' messages");
}

}  // namespace recollect::local
