// One rank's part in passing tensors between two ranks of a region: one out, one in, or both at once. A
// tensor moves in pieces through two staging slots of the sender: it fills one while the receiver empties the
// other. Collectives leave those two slots alone between calls (local_communicator.h). The sender's outbox
// says what is sent and to whom, the receiver answers there, and each side rings the other's bell when
// something has changed.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "comm/call_times.h"
#include "comm/collective_call.h"
#include "comm/local/segment.h"

namespace recollect::local {

class Passing {
 public:
  Passing(Segment& segment, Region& region, int rank, std::chrono::milliseconds timeout, CallTimes& times);

  // Passes each parcel, which comes with its call. `first_slot` is the first of the two slots among the
  // rank's buffers. Returns when both have been passed. Throws kPeerLost like Barrier::wait, and
  // kRanksDisagree if the other side passes something else.
  void run(const Parcel& out, const CollectiveCall& send, const Parcel& in, const CollectiveCall& receive,
           int first_slot);

 private:
  using Clock = std::chrono::steady_clock;

  struct Side {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    int peer = -1;
    CollectiveCall call;
    std::atomic<uint64_t>* awaits = nullptr;  // where this rank publishes that it waits for the peer
    uint32_t moved = 0;                       // number of pieces
    bool has_met = false;                     // the peer has come
    bool is_done = true;
  };

  Side side_of(const Parcel& parcel, const CollectiveCall& call, std::atomic<uint64_t>& awaits) const;
  void post(int first_slot);
  bool advance_out();  // returns true if anything has changed
  bool advance_in();
  void meet(Side& side);
  // Publishes for all ranks that this one waits, from its first sleep until the peer has done something. It
  // stays published when this rank gives up, because others give up at the same moment and follow the waits
  // through this rank.
  static void say_awaited(const Side& side);
  static void say_nothing(const Side& side) { side.awaits->store(0, std::memory_order_relaxed); }
  uint32_t pieces(const Side& side) const;
  std::size_t piece_bytes(const Side& side) const;
  void ring(int peer);
  void wait_for_bell(uint32_t heard, std::chrono::milliseconds longest);
  // Returns why the call cannot continue, or "": which rank has died, has left or, when `late`, has not come.
  std::string why_lost(bool late) const;
  std::vector<int> awaited() const;  // as world ranks
  [[noreturn]] void throw_stopped() const;
  const CollectiveCall& call() const { return in_.is_done ? out_.call : in_.call; }
  RankState& state(int rank) const { return segment_.rank_state(region_, rank); }
  template <typename F>
  void for_each_open_side(F f) const;

  Segment& segment_;
  Region& region_;
  RankState& mine_;
  const int rank_;
  const std::chrono::milliseconds timeout_;
  CallTimes& times_;
  Clock::time_point since_{};  // since when this rank has waited for its peers
  Side out_, in_;
};

}  // namespace recollect::local
