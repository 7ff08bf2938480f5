// Rank threads of one process: the segment is the process's own memory, and every thread gets it from the
// group.
#include "comm/local.h"
#include "comm/local/local_communicator.h"

namespace recollect {

std::size_t local_staging_bytes(int world_size, int size) {
  return size == 1 ? 0 : local::kBuffers * local::usable_chunk(world_size, kDefaultChunkBytes);
}

LocalGroup::LocalGroup(int size, std::chrono::milliseconds timeout, std::size_t chunk_bytes)
    : timeout_(timeout), size_(size) {
  require(size >= 1, "a group of " + std::to_string(size) + " ranks");
  if (size > 1) segment_ = local::Segment::make_private(size, local::usable_chunk(size, chunk_bytes));
}

std::unique_ptr<Communicator> LocalGroup::join(int rank) {
  require(rank >= 0 && rank < size_,
          "rank " + std::to_string(rank) + " joins a group of " + std::to_string(size_) + " ranks");
  if (size_ == 1) return make_self_communicator();
  local::RankState& state = segment_->rank_state(segment_->root(), rank);
  auto absent = local::Membership::kAbsent;
  const bool first = state.membership.compare_exchange_strong(absent, local::Membership::kClaimed);
  require(first, "rank " + std::to_string(rank) + " joins its group twice");
  state.process = local::this_process();
  state.membership.store(local::Membership::kJoined, std::memory_order_release);
  return std::make_unique<local::LocalCommunicator>(segment_, segment_->root(), rank, timeout_);
}

}  // namespace recollect
