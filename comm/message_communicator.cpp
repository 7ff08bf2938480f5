#include "comm/message_communicator.h"

#include <algorithm>
#include <cstring>

#include "comm/reduction.h"

namespace recollect {
namespace {

// Bytes of one rank's share in staging memory, for few ranks; many ranks divide kStagingBytes. Twice this
// share took up to twice the time per byte, over TCP on one machine.
constexpr std::size_t kLargestShare = 512 << 10;
constexpr std::size_t kStagingBytes = 16 << 20;
constexpr std::size_t kSmallestShare = 64 << 10;
// Up to this size every rank gets all parts and sums them itself: one round of messages instead of two.
constexpr std::size_t kSmallBytes = 8 << 10;
// MPI counts in int, so longer tensors are sent in several messages.
constexpr std::size_t kLargestMessage = 256 << 20;
constexpr std::size_t kCacheLine = 64;
static_assert(kSmallBytes <= kSmallestShare);

std::size_t share_for(int size) {
  const std::size_t even = kStagingBytes / static_cast<std::size_t>(size) / kCacheLine * kCacheLine;
  return std::clamp(even, kSmallestShare, kLargestShare);
}

bool is_of_a_pair(CollectiveKind kind) {
  return kind == CollectiveKind::kSend || kind == CollectiveKind::kReceive;
}

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memmove(to, from, bytes);
}

}  // namespace

std::size_t message_staging_bytes(int size) {
  return size == 1 ? 0 : share_for(size) * static_cast<std::size_t>(size);
}

MessageCommunicator::MessageCommunicator(int rank, std::vector<int> names, std::shared_ptr<WaitPosts> posts)
    : rank_(rank),
      size_(static_cast<int>(names.size())),
      names_(std::move(names)),
      share_bytes_(share_for(size_)),
      staging_(message_staging_bytes(size_)),
      parts_(size_),
      calls_(size_),
      sent_(size_),
      received_(size_),
      posts_(std::move(posts)),
      slot_(posts_->make_slot()),
      times_(names_) {}

RankWait MessageCommunicator::wait_for_ranks(const std::vector<int>& missing) const {
  RankWait wait{own_name(), call_, before_, names_, {}};
  for (const int r : missing) wait.missing.push_back(names_[r]);
  if (!is_of_a_pair(call_.kind)) return wait;
  wait.before = call_;
  --wait.before.sequence;
  wait.group = wait.missing;
  wait.group.push_back(own_name());
  return wait;
}

void MessageCommunicator::tell_of_wait(const std::vector<int>& missing, bool gives_up) {
  WaitPost post = post_of(wait_for_ranks(missing), slot_);
  post.gave_up = gives_up ? 1 : 0;
  posts_->note(post);
  tell(post);
}

std::string MessageCommunicator::who_is_late(const std::vector<int>& missing,
                                             std::chrono::milliseconds timeout) {
  tell_of_wait(missing, true);
  return recollect::who_is_late(wait_for_ranks(missing), posts_->current(), timeout);
}

void MessageCommunicator::send_part(const void* data, std::size_t bytes, int to) {
  if (bytes > 0) begin_send(data, bytes, to);
}

void MessageCommunicator::receive_part(void* data, std::size_t bytes, int from) {
  if (bytes > 0) begin_receive(data, bytes, from);
}

void MessageCommunicator::begin_swap(const void* mine, void* all, std::size_t bytes) {
  auto* to = static_cast<std::byte*>(all);
  for (int r = 0; r < size_; ++r)
    if (r != rank_) receive_part(to + static_cast<std::size_t>(r) * bytes, bytes, r);
  for (int r = 0; r < size_; ++r)
    if (r != rank_) send_part(mine, bytes, r);
  copy_bytes(to + static_cast<std::size_t>(rank_) * bytes, mine, bytes);
}

int MessageCommunicator::swap_with_all(const void* mine, void* all, std::size_t bytes) {
  begin_swap(mine, all, bytes);
  return wait_for_all().last;
}

void MessageCommunicator::check_usable() {
  if (broken_ || has_failed()) fail("an earlier call of this process failed");
}

template <typename Check>
void MessageCommunicator::agree(Check check) {
  try {
    check();
  } catch (const Error&) {
    broken_ = true;
    note_disagreement();
    throw;
  }
}

void MessageCommunicator::begin_call(CollectiveCall call) {
  check_usable();
  call.sequence = latest_.sequence + 1;
  before_ = latest_;
  latest_ = call_ = call;
  times_.began(call_);
  came_ = CallTimes::Clock::now();
  all_came_ = false;
  begin_swap(&call_, calls_.data(), sizeof call_);
  if (!joins_messages()) meet_all();
}

void MessageCommunicator::meet_all() {
  if (all_came_) return;
  const int last = wait_for_all().last;
  if (last >= 0) times_.waited(last, CallTimes::Clock::now() - came_);
  all_came_ = true;
  agree([this] { check_agreement(calls_, names_); });
}

void MessageCommunicator::start(CollectiveCall call) {
  begin_call(call);
  meet_all();
}

void MessageCommunicator::wait_for_peers() {
  const auto came = CallTimes::Clock::now();
  const int last = wait_for_all().last;
  if (last >= 0) times_.waited(last, CallTimes::Clock::now() - came);
}

void MessageCommunicator::finish_transfer() {
  meet_all();
  const Ended ended = wait_for_all();
  if (ended.stood >= 0) times_.waited(ended.stood, ended.silence);
}

// Exchanges the records of a send and a receive. It takes two rounds, so that a pair that sends to each other
// has at most one message pending in each direction. The other side gets this rank's call before anything is
// thrown.
void MessageCommunicator::meet(const CollectiveCall& send, int to, const CollectiveCall& receive, int from) {
  CollectiveCall sender, receiver;
  call_ = from >= 0 ? receive : send;
  if (from >= 0) receive_part(&sender, sizeof sender, from);
  if (to >= 0) send_part(&send, sizeof send, to);
  wait_for_peers();
  call_ = to >= 0 ? send : receive;
  if (to >= 0) receive_part(&receiver, sizeof receiver, to);
  if (from >= 0) send_part(&receive, sizeof receive, from);
  wait_for_peers();
  agree([&] {
    if (to >= 0) check_match(send, own_name(), receiver);
    if (from >= 0) check_match(receive, own_name(), sender);
  });
}

void MessageCommunicator::pass(const Parcel& out, const Parcel& in, void*) {
  const CallTimer timer(times_);
  if (is_copy(out, in, rank_, size_)) return copy_bytes(in.tensor.data, out.tensor.data, in.tensor.bytes());
  check_usable();
  CollectiveCall send, receive;
  if (out) send = send_call(out, ++sent_[out.peer], names_[out.peer]);
  if (in) receive = receive_call(in, ++received_[in.peer], names_[in.peer]);
  if (out) times_.began(send);
  if (in) times_.began(receive);
  meet(send, out.peer, receive, in.peer);
  const auto* from = static_cast<const std::byte*>(out.tensor.data);
  auto* to = static_cast<std::byte*>(in.tensor.data);
  for (std::size_t begin = 0; begin < std::max(send.bytes, receive.bytes); begin += kLargestMessage) {
    if (begin < receive.bytes)
      receive_part(to + begin, std::min(kLargestMessage, receive.bytes - begin), in.peer);
    if (begin < send.bytes) send_part(from + begin, std::min(kLargestMessage, send.bytes - begin), out.peer);
    finish_transfer();
  }
}

void MessageCommunicator::barrier() {
  const CallTimer timer(times_);
  start({.kind = CollectiveKind::kBarrier});
}

void MessageCommunicator::reduce_small(const Tensor& tensor, ReduceOp op) {
  for (int r = 0; r < size_; ++r)
    if (r != rank_) receive_part(staging(r), tensor.bytes(), r);
  for (int r = 0; r < size_; ++r)
    if (r != rank_) send_part(tensor.data, tensor.bytes(), r);
  for (int r = 0; r < size_; ++r) parts_[r] = r == rank_ ? tensor.data : staging(r);
  finish_transfer();
  reduce_parts(tensor.dtype, op, parts_.data(), size_, tensor.data, tensor.elements());
}

// Per chunk: send every rank its share of this rank's data, sum the own share in rank order, send the sum to
// all.
void MessageCommunicator::all_reduce(const Tensor& tensor, ReduceOp op, void*) {
  const CallTimer timer(times_);
  begin_call(all_reduce_call(tensor, op));
  if (tensor.bytes() <= kSmallBytes) return reduce_small(tensor, op);
  const std::size_t width = size_of(tensor.dtype);
  const auto share = static_cast<int64_t>(share_bytes_ / width);
  auto* data = static_cast<std::byte*>(tensor.data);
  for (int64_t begin = 0; begin < tensor.elements(); begin += share * size_) {
    const int64_t count = std::min(share * size_, tensor.elements() - begin);
    const auto edge = [&](int r) { return static_cast<std::size_t>(begin + count * r / size_) * width; };
    const auto bytes = [&](int r) { return edge(r + 1) - edge(r); };
    for (int r = 0; r < size_; ++r)
      if (r != rank_) receive_part(staging(r), bytes(rank_), r);
    for (int r = 0; r < size_; ++r)
      if (r != rank_) send_part(data + edge(r), bytes(r), r);
    for (int r = 0; r < size_; ++r) parts_[r] = r == rank_ ? data + edge(r) : staging(r);
    finish_transfer();
    reduce_parts(tensor.dtype, op, parts_.data(), size_, data + edge(rank_),
                 static_cast<int64_t>(bytes(rank_) / width));
    for (int r = 0; r < size_; ++r)
      if (r != rank_) receive_part(data + edge(r), bytes(r), r);
    for (int r = 0; r < size_; ++r)
      if (r != rank_) send_part(data + edge(rank_), bytes(rank_), r);
    finish_transfer();
  }
}

void MessageCommunicator::all_gather(const Tensor& in, const Tensor& out, void*) {
  const CallTimer timer(times_);
  begin_call(all_gather_call(in, out, size_));
  const std::size_t part = in.bytes();
  const auto* from = static_cast<const std::byte*>(in.data);
  auto* to = static_cast<std::byte*>(out.data);
  std::size_t begin = 0;
  do {
    const std::size_t bytes = std::min(kLargestMessage, part - begin);
    for (int r = 0; r < size_; ++r)
      if (r != rank_) receive_part(to + static_cast<std::size_t>(r) * part + begin, bytes, r);
    for (int r = 0; r < size_; ++r)
      if (r != rank_) send_part(from + begin, bytes, r);
    finish_transfer();
    begin += bytes;
  } while (begin < part);
  copy_bytes(to + static_cast<std::size_t>(rank_) * part, from, part);
}

void MessageCommunicator::reduce_scatter(const Tensor& in, const Tensor& out, void*) {
  const CallTimer timer(times_);
  begin_call(reduce_scatter_call(in, out, size_));
  const std::size_t width = size_of(in.dtype);
  const auto share = static_cast<int64_t>(share_bytes_ / width);
  const auto* from = static_cast<const std::byte*>(in.data);
  const auto piece = [&](int r, int64_t begin) {
    return from + static_cast<std::size_t>(r * out.elements() + begin) * width;
  };
  int64_t begin = 0;
  do {
    const int64_t count = std::min(share, out.elements() - begin);
    const std::size_t bytes = static_cast<std::size_t>(count) * width;
    for (int r = 0; r < size_; ++r)
      if (r != rank_) receive_part(staging(r), bytes, r);
    for (int r = 0; r < size_; ++r)
      if (r != rank_) send_part(piece(r, begin), bytes, r);
    for (int r = 0; r < size_; ++r) parts_[r] = r == rank_ ? piece(r, begin) : staging(r);
    finish_transfer();
    reduce_parts(in.dtype, ReduceOp::kSum, parts_.data(), size_,
                 static_cast<std::byte*>(out.data) + static_cast<std::size_t>(begin) * width, count);
    begin += count;
  } while (begin < out.elements());
}

void MessageCommunicator::broadcast(const Tensor& tensor, int root, void*) {
  const CallTimer timer(times_);
  begin_call(broadcast_call(tensor, root, size_));
  auto* data = static_cast<std::byte*>(tensor.data);
  std::size_t begin = 0;
  do {
    const std::size_t bytes = std::min(kLargestMessage, tensor.bytes() - begin);
    if (rank_ != root) {
      receive_part(data + begin, bytes, root);
    } else {
      for (int r = 0; r < size_; ++r)
        if (r != rank_) send_part(data + begin, bytes, r);
    }
    finish_transfer();
    begin += bytes;
  } while (begin < tensor.bytes());
}

}  // namespace recollect
