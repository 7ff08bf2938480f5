// The memory that the ranks of one node share: a header, then one region per group of ranks. The first region
// belongs to the whole group; split() adds more. All memory is zero until written, contains no pointers, and
// only this file knows its layout.
//
// A region consists of a Region, one RankState per rank, and kBuffers staging slots per rank.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/collective_call.h"
#include "comm/local/process_identity.h"
#include "comm/wait_graph.h"

namespace recollect::local {

inline constexpr int kBuffers = 3;

enum class Membership : uint32_t { kAbsent, kClaimed, kJoined, kLeft };

uint64_t doing_word(const CollectiveCall& call, const CollectiveCall& before);

// A tensor that is being passed to another rank of the group.
struct alignas(64) Outbox {
  std::atomic<uint64_t>
      address;  // (number of this tensor to that rank) << 32 | (rank + 1); 0: nothing is sent
  std::atomic<uint32_t> is_answered;
  std::atomic<uint32_t> filled, taken;  // number of pieces
  int32_t first_slot = 0;
  CollectiveCall sent;    // valid with `address`
  CollectiveCall answer;  // the receiver's call; valid once is_answered
};

struct alignas(64) RankState {
  std::atomic<uint32_t> arrived;       // number of barriers this rank has reached
  std::atomic<Membership> membership;  // `process` is valid from kJoined on
  int32_t world_rank = 0;              // rank in the segment's first region
  std::atomic<uint64_t> doing;         // the latest call and the kind of the previous one, readable by all
  ProcessIdentity process;
  CollectiveCall calls[2];  // the collectives with even and odd sequence numbers
  // For tensors passed between two ranks: the peer that this rank waits for to take, and to give, in the
  // format of Outbox::address. Set while this rank waits, and kept after it has given up.
  std::atomic<uint64_t> awaits_taker, awaits_giver;
  std::atomic<uint32_t> bell;  // rung by the peers that it may wait for
  Outbox outbox;
};

// The rank that came last to a barrier, and when, in nanoseconds of the node's steady clock.
struct Arrival {
  int64_t when;
  int32_t rank;  // rank in the group
};

struct alignas(64) Region {
  int32_t size = 0;
  uint64_t chunk_bytes = 0;  // of one slot
  alignas(64)
      std::atomic<uint32_t> turn;  // twice the number of passed barriers, plus one when the group has stopped
  // The last arrivals at the latest even and the latest odd barrier. Written before `turn` shows that the
  // barrier is passed. It is not overwritten too early: the next barrier of the same parity cannot end before
  // all ranks have read it.
  Arrival last[2] = {};
  alignas(64) std::atomic<uint32_t> arrivals;  // ranks that have reached the current barrier
  std::atomic<uint32_t> sleepers;              // ranks in futex_wait on `turn`
};

enum class StopState : uint32_t { kRunning, kWriting, kStopped };

struct alignas(64) Header {
  static constexpr int kMaxRegions = 512;
  static constexpr std::size_t kReasonBytes = 1024;

  std::atomic<uint64_t> magic;  // written last by the creator
  uint64_t bytes = 0;
  int32_t size = 0;
  ProcessIdentity creator;
  std::atomic<uint32_t> complete;  // every rank has joined
  std::atomic<StopState> stop;
  char reason[kReasonBytes] = {};
  std::atomic<uint64_t> next_free;  // where the next region goes
  std::atomic<uint32_t> region_count;
  std::atomic<uint64_t> regions[kMaxRegions];  // offsets; 0 while a region is being made
};

// Returns the slot size used for a request of `wanted` bytes: whole pages, with at least a cache line per
// rank.
std::size_t usable_chunk(int size, std::size_t wanted);

class Segment {
 public:
  // Makes a segment in this process's own memory, for rank threads.
  static std::shared_ptr<Segment> make_private(int size, std::size_t chunk_bytes);
  // Initialises a new, empty shared-memory object and takes over its descriptor.
  static std::shared_ptr<Segment> make_shared(int descriptor, int size, std::size_t chunk_bytes);
  // Takes over the descriptor of an object that another process makes; null while its header is not finished.
  static std::shared_ptr<Segment> open_shared(int descriptor);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  Header& header() const { return *reinterpret_cast<Header*>(base_); }
  int descriptor() const { return descriptor_; }
  Region& root() const { return region(first_region()); }
  Region& region(uint64_t offset) const { return *reinterpret_cast<Region*>(base_ + offset); }
  RankState& rank_state(Region& region, int rank) const;
  std::byte* slot(Region& region, int rank, int buffer) const;

  // Returns which ranks wait for which at this moment, in all groups.
  std::vector<RankWait> waits() const;

  // Allocates a region for a group of `size` ranks. Returns its offset, or 0 if the segment or the node's
  // shared memory is exhausted.
  uint64_t add_region(int size, std::size_t chunk_bytes) noexcept;

  // Makes every rank's pending and future waits fail. Only the first reason is kept.
  void stop(const std::string& reason) noexcept;
  bool is_stopped() const { return header().stop.load(std::memory_order_acquire) != StopState::kRunning; }
  std::string stop_reason() const;

 private:
  Segment(std::byte* base, std::size_t bytes, int descriptor)
      : base_(base), bytes_(bytes), descriptor_(descriptor) {}
  static std::shared_ptr<Segment> map(int descriptor, std::size_t bytes);
  static uint64_t first_region();
  void initialise(int size, std::size_t chunk_bytes);
  void add_waits(Region& region, std::vector<RankWait>& waits) const;
  void add_waits_of_pairs(Region& region, std::vector<RankWait>& waits) const;

  std::byte* base_;
  std::size_t bytes_;
  int descriptor_;  // -1 if the memory is this process's own
};

}  // namespace recollect::local
