#include "comm/local/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>

#include "comm/local/futex.h"
#include "engine/core/byte_count.h"

namespace recollect::local {
namespace {

// "recol", layout 3.3: a segment of another layout is not joined.
constexpr uint64_t kMagic = 0x7265636f6c030003;
constexpr std::size_t kPage = 4096;
// How many times the whole group can be split. This reserves address space, not memory.
constexpr std::size_t kSplits = 32;

constexpr std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

std::size_t slots_offset(int size) {
  return round_up(sizeof(Region) + static_cast<std::size_t>(size) * sizeof(RankState), kPage);
}

std::size_t region_bytes(int size, std::size_t chunk_bytes) {
  return slots_offset(size) + static_cast<std::size_t>(size) * kBuffers * chunk_bytes;
}

std::size_t segment_bytes(int size, std::size_t chunk_bytes) {
  const std::size_t headers_when_split = static_cast<std::size_t>(size) * kPage;
  return round_up(sizeof(Header), kPage) + kSplits * (region_bytes(size, chunk_bytes) + headers_when_split);
}

// To the system shared memory is a file; EFBIG means the limit on file sizes that ulimit -f sets.
Error no_memory(const std::string& what, int reason) {
  if (reason == EFBIG)
    return {ExitCode::kStorage, what + ": " + std::generic_category().message(reason),
            "the limit on the size of files is below that, and the ranks of one node talk through a file in "
            "shared memory; raise it (ulimit -f unlimited)"};
  return {ExitCode::kHostMemory, what + ": " + std::generic_category().message(reason),
          "the ranks of one node talk through shared memory; enlarge it (docker run --shm-size=1g)"};
}

}  // namespace

uint64_t doing_word(const CollectiveCall& call, const CollectiveCall& before) {
  return call.sequence << 16 | static_cast<uint64_t>(call.kind) << 8 | static_cast<uint64_t>(before.kind);
}

std::size_t usable_chunk(int size, std::size_t wanted) {
  return round_up(std::max<std::size_t>({wanted, static_cast<std::size_t>(size) * 64, 1}), kPage);
}

uint64_t Segment::first_region() { return round_up(sizeof(Header), kPage); }

std::shared_ptr<Segment> Segment::map(int descriptor, std::size_t bytes) {
  const int flags = descriptor < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, descriptor, 0);
  if (base == MAP_FAILED) {
    const int reason = errno;
    if (descriptor >= 0) ::close(descriptor);
    throw no_memory("mapping a segment of " + byte_count(bytes) + " for the ranks of this node", reason);
  }
  return std::shared_ptr<Segment>(new Segment(static_cast<std::byte*>(base), bytes, descriptor));
}

std::shared_ptr<Segment> Segment::make_private(int size, std::size_t chunk_bytes) {
  auto segment = map(-1, segment_bytes(size, chunk_bytes));
  segment->initialise(size, chunk_bytes);
  return segment;
}

std::shared_ptr<Segment> Segment::make_shared(int descriptor, int size, std::size_t chunk_bytes) {
  const std::size_t bytes = segment_bytes(size, chunk_bytes);
  if (::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
    const int reason = errno;
    ::close(descriptor);
    throw no_memory("reserving a shared segment of " + byte_count(bytes), reason);
  }
  auto segment = map(descriptor, bytes);
  segment->initialise(size, chunk_bytes);
  return segment;
}

std::shared_ptr<Segment> Segment::open_shared(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || static_cast<std::size_t>(status.st_size) < sizeof(Header)) {
    ::close(descriptor);
    return nullptr;
  }
  auto segment = map(descriptor, static_cast<std::size_t>(status.st_size));
  const Header& header = segment->header();
  const bool ready =
      header.magic.load(std::memory_order_acquire) == kMagic && header.bytes == segment->bytes_;
  return ready ? segment : nullptr;
}

Segment::~Segment() {
  ::munmap(base_, bytes_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Segment::initialise(int size, std::size_t chunk_bytes) {
  auto* header = new (base_) Header();
  header->bytes = bytes_;
  header->size = size;
  header->creator = this_process();
  header->next_free.store(first_region());
  if (add_region(size, chunk_bytes) == 0)
    throw no_memory("taking " + byte_count(region_bytes(size, chunk_bytes)) + " of shared memory for " +
                        std::to_string(size) + " ranks",
                    ENOSPC);
  for (int rank = 0; rank < size; ++rank) rank_state(root(), rank).world_rank = rank;
  header->magic.store(kMagic, std::memory_order_release);
}

uint64_t Segment::add_region(int size, std::size_t chunk_bytes) noexcept {
  const std::size_t bytes = region_bytes(size, chunk_bytes);
  const uint32_t index = header().region_count.fetch_add(1);
  const uint64_t offset = header().next_free.fetch_add(bytes);
  if (index >= Header::kMaxRegions || offset + bytes > bytes_) return 0;
  // The memory is allocated now, so that a lack of shared memory is an Error here and not a bus error later.
  const auto start = static_cast<off_t>(index == 0 ? 0 : offset);
  if (descriptor_ >= 0 &&
      ::posix_fallocate(descriptor_, start, static_cast<off_t>(offset + bytes) - start) != 0)
    return 0;
  auto* made = new (base_ + offset) Region();
  made->size = size;
  made->chunk_bytes = chunk_bytes;
  for (int rank = 0; rank < size; ++rank) new (&rank_state(*made, rank)) RankState();
  header().regions[index].store(offset, std::memory_order_release);
  return offset;
}

RankState& Segment::rank_state(Region& region, int rank) const {
  auto* states = reinterpret_cast<RankState*>(reinterpret_cast<std::byte*>(&region) + sizeof(Region));
  return states[rank];
}

std::byte* Segment::slot(Region& region, int rank, int buffer) const {
  return reinterpret_cast<std::byte*>(&region) + slots_offset(region.size) +
         static_cast<std::size_t>(rank * kBuffers + buffer) * region.chunk_bytes;
}

void Segment::stop(const std::string& reason) noexcept {
  StopState running = StopState::kRunning;
  if (!header().stop.compare_exchange_strong(running, StopState::kWriting)) return;
  const std::size_t length = std::min(reason.size(), Header::kReasonBytes - 1);
  std::memcpy(header().reason, reason.data(), length);
  header().reason[length] = '\0';
  header().stop.store(StopState::kStopped, std::memory_order_release);
  const uint32_t count = std::min<uint32_t>(header().region_count.load(), Header::kMaxRegions);
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t offset = header().regions[i].load(std::memory_order_acquire);
    if (offset == 0) continue;
    region(offset).turn.fetch_or(1);
    futex_wake_all(region(offset).turn);
    for (int rank = 0; rank < region(offset).size; ++rank) {
      std::atomic<uint32_t>& bell = rank_state(region(offset), rank).bell;
      bell.fetch_add(1);
      futex_wake_all(bell);
    }
  }
}

std::vector<RankWait> Segment::waits() const {
  std::vector<RankWait> waits;
  const uint32_t count = std::min<uint32_t>(header().region_count.load(), Header::kMaxRegions);
  for (uint32_t i = 0; i < count; ++i)
    if (const uint64_t offset = header().regions[i].load(std::memory_order_acquire); offset != 0)
      add_waits(region(offset), waits);
  return waits;
}

void Segment::add_waits_of_pairs(Region& region, std::vector<RankWait>& waits) const {
  for (int r = 0; r < region.size; ++r) {
    const RankState& state = rank_state(region, r);
    for (const auto& [awaits, kind] : {std::pair{&state.awaits_taker, CollectiveKind::kSend},
                                       {&state.awaits_giver, CollectiveKind::kReceive}}) {
      const uint64_t address = awaits->load(std::memory_order_relaxed), number = address >> 32;
      if (address == 0) continue;
      const int peer = rank_state(region, static_cast<int>(address & 0xffffffff) - 1).world_rank;
      waits.push_back({.rank = state.world_rank,
                       .call = {.sequence = number, .root = peer, .kind = kind},
                       .before = {.sequence = number - 1, .root = peer, .kind = kind},
                       .group = {state.world_rank, peer},
                       .missing = {peer}});
    }
  }
}

// Ranks that have reached the current barrier wait for those that have not. If the barrier is passed
// meanwhile, no one waits.
void Segment::add_waits(Region& region, std::vector<RankWait>& waits) const {
  add_waits_of_pairs(region, waits);
  constexpr uint32_t kTurns = ~uint32_t{0} >> 1;
  const uint32_t passed = region.turn.load(std::memory_order_acquire) >> 1;
  std::vector<int> group, missing, here;
  for (int r = 0; r < region.size; ++r) {
    const RankState& state = rank_state(region, r);
    const Membership membership = state.membership.load(std::memory_order_acquire);
    const bool known = membership == Membership::kJoined || membership == Membership::kLeft;
    if (!known && &region != &root()) return;  // the group is just being made
    group.push_back(state.world_rank);
    const bool has_come = (state.arrived.load(std::memory_order_acquire) & kTurns) != passed;
    has_come ? here.push_back(r) : missing.push_back(state.world_rank);
  }
  if (missing.empty() || region.turn.load() >> 1 != passed) return;
  for (const int r : here) {
    const RankState& state = rank_state(region, r);
    const uint64_t doing = state.doing.load(std::memory_order_relaxed), sequence = doing >> 16;
    const auto kind = [&](int shift) { return static_cast<CollectiveKind>(doing >> shift & 255); };
    waits.push_back({.rank = state.world_rank,
                     .call = {.sequence = sequence, .kind = kind(8)},
                     .before = {.sequence = sequence - 1, .kind = kind(0)},
                     .group = group,
                     .missing = missing});
  }
}

std::string Segment::stop_reason() const {
  if (header().stop.load(std::memory_order_acquire) != StopState::kStopped) return "a rank stopped";
  return header().reason;
}

}  // namespace recollect::local
