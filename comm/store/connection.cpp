#include "comm/store/connection.h"

#include <algorithm>

namespace recollect::store {
namespace {

using tcp::Clock;

constexpr std::size_t kReadBytes = 64 << 10;
constexpr std::size_t kSmallRequest = 8 << 10;  // every connection can always hold one of this size
constexpr auto kNever = std::chrono::hours(24 * 365);

}  // namespace

Connection::Connection(tcp::Socket socket, int rank, uint64_t here_since, const StoreLimits& limits,
                       std::size_t& moving_bytes)
    : socket_(std::move(socket)),
      rank_(rank),
      here_since_(here_since),
      limits_(limits),
      moving_bytes_(moving_bytes),
      deadline_(Clock::now() + kNever),
      waits_until_(deadline_) {}

// A waiting client sends nothing, but it may close the connection.
short Connection::events() const {
  if (waiting_) return POLLRDHUP;
  return out_head_.empty() ? POLLIN : POLLOUT;
}

void Connection::account(std::size_t bytes) {
  moving_bytes_ += bytes - accounted_;
  accounted_ = bytes;
}

bool Connection::move() {
  if (!out_head_.empty()) return send();
  if (!waiting_) return receive();
  pollfd file{socket_.descriptor(), POLLRDHUP, 0};
  return !tcp::wait_for({&file, 1}, Clock::now());
}

bool Connection::receive() {
  while (true) {
    std::size_t wanted = kLengthBytes;
    if (in_.size() >= kLengthBytes) {
      const std::size_t length = parse_length(in_.data());
      if (length == 0 || length > kLongestRequest) return false;
      wanted += length;
      if (in_.size() == wanted) return true;
    }
    const std::size_t before = in_.size(), more = std::min(kReadBytes, wanted - before);
    const bool fits = moving_bytes_ - accounted_ + before + more <= limits_.moving_bytes;
    if (!fits && before + more > kSmallRequest) return false;
    in_.resize(before + more);
    const tcp::Moved moved = tcp::receive_some(socket_, in_.data() + before, more);
    in_.resize(before + moved.bytes);
    account(in_.capacity());
    if (moved.closed) return false;
    if (moved.bytes == 0) return true;
    if (before == 0) deadline_ = Clock::now() + limits_.frame;
  }
}

std::optional<std::string> Connection::take_request() {
  if (waiting_ || !out_head_.empty() || in_.size() <= kLengthBytes) return std::nullopt;
  if (in_.size() < kLengthBytes + parse_length(in_.data())) return std::nullopt;
  std::string body = in_.substr(kLengthBytes);
  in_ = std::string();
  account(0);
  deadline_ = Clock::now() + kNever;
  return body;
}

void Connection::reply(const Reply& reply) {
  waiting_.reset();
  waits_until_ = Clock::now() + kNever;
  const std::size_t length = reply.value ? reply.value->size() : 0;
  out_head_ = length_prefix(1 + length) + static_cast<char>(reply.status);
  out_ = reply.value;
  sent_ = 0;
  account(length);
  deadline_ = Clock::now() + limits_.frame;
}

bool Connection::send() {
  const std::size_t length = out_ ? out_->size() : 0;
  while (sent_ < out_head_.size() + length) {
    const bool head = sent_ < out_head_.size();
    const char* from = head ? out_head_.data() + sent_ : out_->data() + (sent_ - out_head_.size());
    const std::size_t bytes = head ? out_head_.size() - sent_ : out_head_.size() + length - sent_;
    const tcp::Moved moved = tcp::send_some(socket_, from, bytes);
    if (moved.closed) return false;
    if (moved.bytes == 0) return true;
    sent_ += moved.bytes;
  }
  out_head_.clear();
  out_ = nullptr;
  account(0);
  deadline_ = Clock::now() + kNever;
  return true;
}

void Connection::wait(Request request, uint64_t turn) {
  waits_until_ = Clock::now() + request.timeout;
  waiting_ = std::move(request);
  turn_ = turn;
}

}  // namespace recollect::store
