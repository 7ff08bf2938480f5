#include "comm/tcp/tcp_communicator.h"

#include <algorithm>
#include <cstring>

#include "engine/core/error.h"

namespace recollect::tcp {
namespace {

// A second message goes with the first one if it is no longer than this; otherwise none of it does. Sending
// more would count as waiting for the other ranks. And ranks that send the first part of a long message
// early, and the rest later, take longer than ranks that start together.
constexpr std::size_t kAheadBytes = 256 << 10;

int place_of(int world_rank, const std::vector<int>& members) {
  return static_cast<int>(std::find(members.begin(), members.end(), world_rank) - members.begin());
}

void drop_front(std::span<iovec> parts, std::size_t bytes) {
  for (iovec& part : parts) {
    const std::size_t dropped = std::min(part.iov_len, bytes);
    part = {static_cast<std::byte*>(part.iov_base) + dropped, part.iov_len - dropped};
    bytes -= dropped;
  }
}

// Returns a random number for a new group. Small numbers are reserved for the world itself.
uint64_t make_group_number() {
  constexpr uint64_t kWorlds = 16;
  const Nonce nonce = make_nonce();
  uint64_t number = 0;
  std::memcpy(&number, nonce.data(), sizeof number);
  return std::max(number, kWorlds);
}

}  // namespace

TcpCommunicator::TcpCommunicator(std::shared_ptr<Peers> peers, const std::vector<int>& members,
                                 std::vector<Socket> sockets)
    : MessageCommunicator(place_of(peers->rank(), members), members, peers->posts()),
      peers_(std::move(peers)),
      lanes_(members.size()),
      files_(members.size() + 1) {
  for (std::size_t i = 0; i < sockets.size(); ++i) lanes_[i].socket = std::move(sockets[i]);
  files_.back() = {peers_->stop_event().descriptor(), POLLIN, 0};
}

void TcpCommunicator::begin_send(const void* data, std::size_t bytes, int to) {
  Lane& lane = lanes_[to];
  lane.out[lane.sends()] = {const_cast<void*>(data), bytes};  // it is only read
}

void TcpCommunicator::begin_receive(void* data, std::size_t bytes, int from) {
  Lane& lane = lanes_[from];
  lane.in[lane.receives()] = {data, bytes};
}

// Transfers what the sockets accept and provide without waiting. Returns the number of bytes.
std::size_t TcpCommunicator::move(int rank) {
  Lane& lane = lanes_[rank];
  Moved out, in;
  if (lane.sends()) {
    auto parts = lane.out;
    if (parts[1].iov_len > kAheadBytes) parts[1].iov_len = 0;
    out = send_some(lane.socket, parts);
  }
  if (lane.receives()) in = receive_some(lane.socket, lane.in);
  drop_front(lane.out, out.bytes);
  drop_front(lane.in, in.bytes);
  if (in.closed || (out.closed && in.bytes == 0)) {
    const std::string why = peers_->why_lost(name_of_rank(rank));
    if (peers_->is_stopped()) fail_as_stopped();
    fail(why);
  }
  return out.bytes + in.bytes;
}

// A long message may take longer than the timeout, as long as bytes move. Data that has arrived is taken even
// if a rank has stopped in the meantime, because it may explain the failure better.
MessageCommunicator::Ended TcpCommunicator::wait_for_all() {
  Ended ended;
  Clock::duration longest{};
  const auto start = Clock::now();
  auto moved_at = start, next_post = start + posts().interval();
  while (true) {
    int mover = -1;
    bool busy = false;
    for (int r = 0; r < size(); ++r) {
      const bool awaited = lanes_[r].receives();
      if (lanes_[r].is_busy() && move(r) > 0) mover = r;
      if (awaited && !lanes_[r].receives()) ended.last = r;
      busy = busy || lanes_[r].is_busy();
    }
    const auto now = Clock::now();
    const auto silence = now - moved_at;
    if (mover >= 0) {
      if (silence >= kSilence) ended.silence += silence;
      if (silence >= std::max<Clock::duration>(kSilence, longest)) {
        longest = silence;
        ended.stood = mover;
      }
      moved_at = now;
      next_post = now + posts().interval();
    }
    if (!busy) break;
    if (mover >= 0) continue;
    if (peers_->is_stopped()) fail_as_stopped();
    const auto deadline = moved_at + peers_->timeout();
    if (wait_for_some(std::min(deadline, next_post))) continue;
    if (Clock::now() >= deadline) fail(who_is_late(late(), peers_->timeout()));
    tell_of_wait(late());
    next_post += posts().interval();
  }
  for (Lane& lane : lanes_) lane.next();
  return ended;
}

bool TcpCommunicator::wait_for_some(Clock::time_point until) {
  for (int r = 0; r < size(); ++r) {
    const Lane& lane = lanes_[r];
    const int events = (lane.sends() ? POLLOUT : 0) | (lane.receives() ? POLLIN : 0);
    files_[r] = {lane.is_busy() ? lane.socket.descriptor() : -1, static_cast<short>(events), 0};
  }
  return wait_for(files_, until);
}

std::vector<int> TcpCommunicator::late() const {
  std::vector<int> ranks;
  for (int r = 0; r < size(); ++r)
    if (lanes_[r].is_busy()) ranks.push_back(r);
  return ranks;
}

// If the world has stopped already, the message gives that reason instead of `what`.
void TcpCommunicator::fail(const std::string& what) {
  const std::string mine = call_text();
  const bool first = !peers_->is_stopped();
  if (first) peers_->stop(mine + ": " + what);
  throw Error(ExitCode::kPeerLost,
              first ? mine + ": " + what : mine + " cannot finish: " + peers_->stop_reason(),
              "look for the first error among the other ranks' messages");
}

// Throws the reason of the stop, within a call. A rank may learn of a disagreement from another rank that
// knows all their calls before it does.
void TcpCommunicator::fail_as_stopped() {
  if (peers_->stop_code() != ExitCode::kRanksDisagree) fail(peers_->stop_reason());
  throw Error(ExitCode::kRanksDisagree, call_text() + " cannot finish: " + peers_->stop_reason(),
              "every rank must run the same program on the same shapes; compare the ranks' configurations");
}

// Discards the data that came with the other ranks' records. Closing a socket with unread data resets the
// connection, and messages that the other end has not read yet could be lost.
void TcpCommunicator::note_disagreement() noexcept {
  peers_->note_disagreement();
  std::array<std::byte, 4096> rest;
  for (const Lane& lane : lanes_)
    while (lane.socket && receive_some(lane.socket, rest.data(), rest.size()).bytes > 0) {
    }
}

// The first rank of every colour chooses the number of the new group.
std::unique_ptr<Communicator> TcpCommunicator::split(int color) {
  start({.kind = CollectiveKind::kSplit});
  std::vector<int> colors(size());
  swap_with_all(&color, colors.data(), sizeof color);
  const uint64_t mine = make_group_number();
  std::vector<uint64_t> numbers(size());
  swap_with_all(&mine, numbers.data(), sizeof mine);
  std::vector<int> members;
  for (int r = 0; r < size(); ++r)
    if (colors[r] == color) members.push_back(name_of_rank(r));
  if (members.size() == 1) return make_self_communicator();
  const auto first = std::find(colors.begin(), colors.end(), color) - colors.begin();
  auto group = std::make_unique<TcpCommunicator>(peers_, members,
                                                 peers_->connect(numbers[first], members, peers_->timeout()));
  group->note_calls_in(times()->log());
  return group;
}

void TcpCommunicator::abort(const std::string& why) noexcept {
  try {
    peers_->stop("rank " + std::to_string(own_name()) + " stopped: " + why);
  } catch (...) {
    peers_->stop("a rank stopped");
  }
}

std::optional<std::string> TcpCommunicator::stop_reason() const {
  if (!peers_->is_stopped()) return std::nullopt;
  return peers_->stop_reason();
}

}  // namespace recollect::tcp
