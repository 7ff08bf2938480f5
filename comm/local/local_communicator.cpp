#include "comm/local/local_communicator.h"

#include <algorithm>
#include <cstring>

#include "comm/local/futex.h"
#include "comm/local/passing.h"
#include "comm/reduction.h"

namespace recollect::local {
namespace {

// Up to this size every rank sums everything itself: one meeting instead of two.
constexpr std::size_t kSmallBytes = 16 << 10;
constexpr std::size_t kCacheLine = 64;

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memmove(to, from, bytes);
}

std::vector<int> world_ranks_of(const Segment& segment, Region& region) {
  std::vector<int> ranks;
  ranks.reserve(static_cast<std::size_t>(region.size));
  for (int r = 0; r < region.size; ++r) ranks.push_back(segment.rank_state(region, r).world_rank);
  return ranks;
}

}  // namespace

LocalCommunicator::LocalCommunicator(std::shared_ptr<Segment> segment, Region& region, int rank,
                                     std::chrono::milliseconds timeout)
    : segment_(std::move(segment)),
      region_(region),
      rank_(rank),
      size_(region.size),
      timeout_(timeout),
      barrier_(segment_, region, rank, timeout),
      parts_(size_),
      calls_(size_),
      sent_(size_),
      received_(size_),
      world_ranks_(world_ranks_of(*segment_, region_)),
      times_(world_ranks_) {
  // The owner touches its slots at start-up, so that no step takes page faults for them.
  std::memset(slot(rank_, 0), 0, kBuffers * region_.chunk_bytes);
}

LocalCommunicator::~LocalCommunicator() {
  segment_->rank_state(region_, rank_).membership.store(Membership::kLeft, std::memory_order_release);
  futex_wake_all(region_.turn);
}

void LocalCommunicator::check_usable() const {
  if (!broken_) return;
  throw Error(
      ExitCode::kPeerLost,
      "an earlier call of rank " + std::to_string(world_ranks_[rank_]) + " failed, after " + call_.name(),
      "look for the first error among the ranks' messages");
}

void LocalCommunicator::start(CollectiveCall call) {
  check_usable();
  call.sequence = call_.sequence + 1;
  RankState& mine = segment_->rank_state(region_, rank_);
  mine.doing.store(doing_word(call, call_), std::memory_order_relaxed);
  call_ = call;
  agreed_ = false;
  mine.calls[call_.sequence % 2] = call_;
  times_.began(call_);
}

// Meets all ranks in the barrier. The first meeting of a call also compares the calls of all ranks. The
// record of a call is overwritten two calls later, when all ranks have read it.
void LocalCommunicator::meet() {
  broken_ = true;
  barrier_.wait(call_, times_, agreed_);
  if (!agreed_) {
    for (int r = 0; r < size_; ++r) calls_[r] = segment_->rank_state(region_, r).calls[call_.sequence % 2];
    check_agreement(calls_, world_ranks_);
    agreed_ = true;
  }
  broken_ = false;
}

void LocalCommunicator::barrier() {
  const CallTimer timer(times_);
  start({.kind = CollectiveKind::kBarrier});
  meet();
}

void LocalCommunicator::pass(const Parcel& out, const Parcel& in, void*) {
  const CallTimer timer(times_);
  if (is_copy(out, in, rank_, size_)) return copy_bytes(in.tensor.data, out.tensor.data, in.tensor.bytes());
  check_usable();
  CollectiveCall send, receive;
  if (out) send = send_call(out, ++sent_[out.peer], world_ranks_[out.peer]);
  if (in) receive = receive_call(in, ++received_[in.peer], world_ranks_[in.peer]);
  if (out) times_.began(send);
  if (in) times_.began(receive);
  broken_ = true;
  Passing(*segment_, region_, rank_, timeout_, times_).run(out, send, in, receive, buffer_);
  broken_ = false;
}

LocalCommunicator::Range LocalCommunicator::share_of(int rank, int64_t elements,
                                                     std::size_t element_bytes) const {
  const auto line = static_cast<int64_t>(kCacheLine / element_bytes);
  const int64_t lines = (elements + line - 1) / line;
  return {std::min(elements, lines * rank / size_ * line),
          std::min(elements, lines * (rank + 1) / size_ * line)};
}

void LocalCommunicator::reduce_small(const Tensor& tensor, ReduceOp op) {
  copy_bytes(slot(rank_, buffer_), tensor.data, tensor.bytes());
  meet();
  for (int r = 0; r < size_; ++r) parts_[r] = slot(r, buffer_);
  reduce_parts(tensor.dtype, op, parts_.data(), size_, tensor.data, tensor.elements());
  buffer_ = (buffer_ + 1) % kBuffers;
}

// Sums this rank's share of a chunk. The result goes to `chunk`, where this rank's own data still is, and to
// this rank's slot, where the others read it.
void LocalCommunicator::reduce_share(std::byte* chunk, int buffer, DType dtype, ReduceOp op,
                                     int64_t elements) {
  const Range share = share_of(rank_, elements, size_of(dtype));
  const std::size_t offset = static_cast<std::size_t>(share.begin) * size_of(dtype);
  for (int r = 0; r < size_; ++r) parts_[r] = (r == rank_ ? chunk : slot(r, buffer)) + offset;
  reduce_parts(dtype, op, parts_.data(), size_, slot(rank_, buffer) + offset, share.count());
  copy_bytes(chunk + offset, slot(rank_, buffer) + offset, share.count() * size_of(dtype));
}

// Three steps per chunk: write the data into the slot, sum this rank's share of all slots, copy the other
// ranks' shares. While the ranks sum chunk k they also write chunk k + 1, so that each chunk needs only one
// meeting.
void LocalCommunicator::all_reduce(const Tensor& tensor, ReduceOp op, void*) {
  const CallTimer timer(times_);
  start(all_reduce_call(tensor, op));
  if (tensor.bytes() <= std::min<std::size_t>(kSmallBytes, region_.chunk_bytes))
    return reduce_small(tensor, op);
  const std::size_t width = size_of(tensor.dtype);
  const auto chunk = static_cast<int64_t>(region_.chunk_bytes / width);
  const int64_t elements = tensor.elements();
  auto* data = static_cast<std::byte*>(tensor.data);
  const auto bring = [&](int64_t begin, int buffer) {  // everything except the share that this rank sums
    if (begin >= elements) return;
    const int64_t count = std::min(chunk, elements - begin);
    const Range own = share_of(rank_, count, width);
    const std::byte* from = data + begin * width;
    copy_bytes(slot(rank_, buffer), from, own.begin * width);
    copy_bytes(slot(rank_, buffer) + own.end * width, from + own.end * width, (count - own.end) * width);
  };
  bring(0, buffer_);
  meet();
  for (int64_t begin = 0; begin < elements; begin += chunk) {
    const int64_t count = std::min(chunk, elements - begin);
    reduce_share(data + begin * width, buffer_, tensor.dtype, op, count);
    bring(begin + chunk, buffer_ + 1);
    meet();
    for (int i = 1; i < size_; ++i) {
      const int r = (rank_ + i) % size_;
      const Range share = share_of(r, count, width);
      copy_bytes(data + (begin + share.begin) * width, slot(r, buffer_) + share.begin * width,
                 share.count() * width);
    }
    buffer_ = (buffer_ + 1) % kBuffers;
  }
}

// As in all_reduce, a chunk is written before the meeting that ends the reading of the previous chunk. A rank
// copies its own part directly to its place, also before the meeting, after which the others read the slot.
void LocalCommunicator::gather(const void* in, void* out, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(in);
  auto* to = static_cast<std::byte*>(out);
  const auto place_of = [&](int rank) { return to + static_cast<std::size_t>(rank) * bytes; };
  const auto bring = [&](std::size_t begin, int buffer) {
    if (begin >= bytes) return;
    const std::size_t count = std::min<std::size_t>(region_.chunk_bytes, bytes - begin);
    copy_bytes(slot(rank_, buffer), from + begin, count);
    copy_bytes(place_of(rank_) + begin, from + begin, count);
  };
  std::size_t begin = 0;
  bring(begin, buffer_);
  do {
    meet();
    const std::size_t count = std::min<std::size_t>(region_.chunk_bytes, bytes - begin);
    for (int i = 1; i < size_; ++i) {
      const int r = (rank_ + i) % size_;
      copy_bytes(place_of(r) + begin, slot(r, buffer_), count);
    }
    begin += count;
    bring(begin, buffer_ + 1);
    buffer_ = (buffer_ + 1) % kBuffers;
  } while (begin < bytes);
}

void LocalCommunicator::all_gather(const Tensor& in, const Tensor& out, void*) {
  const CallTimer timer(times_);
  start(all_gather_call(in, out, size_));
  gather(in.data, out.data, in.bytes());
}

// A chunk is written before the meeting that ends the summing of the previous chunk. A rank's own part is
// read by no other rank and stays where it is.
void LocalCommunicator::reduce_scatter(const Tensor& in, const Tensor& out, void*) {
  const CallTimer timer(times_);
  start(reduce_scatter_call(in, out, size_));
  const std::size_t width = size_of(in.dtype);
  const int64_t elements = out.elements();
  // A slot holds one piece for every rank, each starting on a cache line.
  const std::size_t piece_bytes = region_.chunk_bytes / size_ / kCacheLine * kCacheLine;
  const auto piece = static_cast<int64_t>(piece_bytes / width);
  const auto* from = static_cast<const std::byte*>(in.data);
  const auto bring = [&](int64_t begin, int buffer) {
    if (begin >= elements) return;
    const std::size_t bytes = std::min(piece, elements - begin) * width;
    for (int i = 1; i < size_; ++i) {
      const int r = (rank_ + i) % size_;
      copy_bytes(slot(rank_, buffer) + r * piece_bytes, from + (r * elements + begin) * width, bytes);
    }
  };
  int64_t begin = 0;
  bring(begin, buffer_);
  do {
    meet();
    const int64_t count = std::min(piece, elements - begin);
    for (int r = 0; r < size_; ++r)
      parts_[r] =
          r == rank_ ? from + (rank_ * elements + begin) * width : slot(r, buffer_) + rank_ * piece_bytes;
    reduce_parts(in.dtype, ReduceOp::kSum, parts_.data(), size_,
                 static_cast<std::byte*>(out.data) + begin * width, count);
    begin += count;
    bring(begin, buffer_ + 1);
    buffer_ = (buffer_ + 1) % kBuffers;
  } while (begin < elements);
}

void LocalCommunicator::broadcast(const Tensor& tensor, int root, void*) {
  const CallTimer timer(times_);
  start(broadcast_call(tensor, root, size_));
  auto* data = static_cast<std::byte*>(tensor.data);
  std::size_t begin = 0;
  do {
    const std::size_t count = std::min<std::size_t>(region_.chunk_bytes, tensor.bytes() - begin);
    if (rank_ == root) copy_bytes(slot(root, buffer_), data + begin, count);
    meet();
    if (rank_ != root) copy_bytes(data + begin, slot(root, buffer_), count);
    buffer_ = (buffer_ + 1) % kBuffers;
    begin += count;
  } while (begin < tensor.bytes());
}

// Called by the lowest rank of a new group: allocates its region and fills in the identities of its members.
uint64_t LocalCommunicator::make_subregion(const std::vector<int>& members) {
  const uint64_t offset = segment_->add_region(static_cast<int>(members.size()), region_.chunk_bytes);
  if (offset == 0) return 0;
  Region& made = segment_->region(offset);
  for (std::size_t i = 0; i < members.size(); ++i) {
    RankState& state = segment_->rank_state(made, static_cast<int>(i));
    const RankState& parent = segment_->rank_state(region_, members[i]);
    state.world_rank = parent.world_rank;
    state.process = parent.process;
    state.membership.store(Membership::kJoined, std::memory_order_release);
  }
  return offset;
}

std::unique_ptr<Communicator> LocalCommunicator::split(int color) {
  constexpr uint64_t kNotLeader = 0, kNoRoom = 1;
  start({.kind = CollectiveKind::kSplit});
  std::vector<int> colors(size_);
  gather(&color, colors.data(), sizeof color);
  std::vector<int> members;
  for (int r = 0; r < size_; ++r)
    if (colors[r] == color) members.push_back(r);
  uint64_t mine = kNotLeader;
  if (members.front() == rank_ && members.size() > 1) {
    mine = make_subregion(members);
    if (mine == 0) mine = kNoRoom;
  }
  std::vector<uint64_t> offsets(size_);
  start({.kind = CollectiveKind::kSplit});
  gather(&mine, offsets.data(), sizeof mine);
  if (std::find(offsets.begin(), offsets.end(), kNoRoom) != offsets.end())
    throw Error(ExitCode::kHostMemory, "no shared memory is left for another group of ranks",
                "enlarge the node's shared memory (docker run --shm-size=1g)");
  if (members.size() == 1) return make_self_communicator();
  const auto my_place = std::find(members.begin(), members.end(), rank_) - members.begin();
  auto made = std::make_unique<LocalCommunicator>(segment_, segment_->region(offsets[members.front()]),
                                                  static_cast<int>(my_place), timeout_);
  made->note_calls_in(times_.log());
  return made;
}

void LocalCommunicator::abort(const std::string& why) noexcept {
  try {
    segment_->stop("rank " + std::to_string(world_ranks_[rank_]) + " stopped: " + why);
  } catch (...) {
    segment_->stop("a rank stopped");
  }
}

std::optional<std::string> LocalCommunicator::stop_reason() const {
  if (!segment_->is_stopped()) return std::nullopt;
  return segment_->stop_reason();
}

}  // namespace recollect::local
