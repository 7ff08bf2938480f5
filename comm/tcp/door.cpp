#include "comm/tcp/door.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace recollect::tcp {
namespace {

using namespace std::chrono_literals;

constexpr auto kPause = 100ms;       // until file descriptors may be available again
constexpr int kAcceptsAtOnce = 128;  // so that connected visitors are served too while many others connect
constexpr auto kFarAway = std::chrono::hours(1);

bool lacks_descriptors(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

Door::Door(Socket listener, std::string secret, Limits limits, Judge judge, Host host)
    : listener_(std::move(listener)),
      secret_(std::move(secret)),
      limits_(limits),
      judge_(std::move(judge)),
      host_(std::move(host)) {}

void Door::add_to(std::vector<pollfd>& files, bool is_full) {
  first_ = files.size();
  asked_listener_ = !is_full && Clock::now() >= pause_until_;
  files.push_back({asked_listener_ ? listener_.descriptor() : -1, POLLIN, 0});
  for (const Visitor& visitor : visitors_) files.push_back({visitor.socket.descriptor(), POLLIN, 0});
}

Clock::time_point Door::next_deadline() const {
  Clock::time_point next = Clock::now() + kFarAway;
  if (!visitors_.empty()) next = visitors_.front().deadline;
  if (pause_until_ > Clock::now()) next = std::min(next, pause_until_);
  return next;
}

void Door::serve(const std::vector<pollfd>& files) {
  const auto now = Clock::now();
  std::size_t at = first_ + 1;
  for (auto visitor = visitors_.begin(); visitor != visitors_.end();) {
    const bool speaks = files[at++].revents != 0;
    const bool done = (speaks && hear(*visitor) == State::kDone) || now >= visitor->deadline;
    visitor = done ? visitors_.erase(visitor) : std::next(visitor);
  }
  if (asked_listener_ && files[first_].revents != 0) accept_all();
}

void Door::accept_all() {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    int error = 0;
    Socket socket = accept_from(listener_, error);
    if (socket) {
      greet(std::move(socket));
    } else if (lacks_descriptors(error) && !visitors_.empty()) {
      visitors_.pop_front();
    } else {
      if (lacks_descriptors(error)) pause_until_ = Clock::now() + kPause;
      if (error != EINTR && error != ECONNABORTED) return;
    }
  }
}

void Door::greet(Socket socket) {
  const Greeting greeting{make_nonce()};
  const std::string bytes = greeting.to_bytes();
  if (send_some(socket, bytes.data(), bytes.size()).bytes != bytes.size()) return;
  if (visitors_.size() >= limits_.visitors) visitors_.pop_front();
  visitors_.push_back({std::move(socket), greeting.nonce, {}, Clock::now() + limits_.patience});
}

// Reads no further than the Hello: the bytes after it are for the host.
Door::State Door::hear(Visitor& visitor) {
  while (true) {
    std::string& bytes = visitor.bytes;
    const bool has_head = bytes.size() >= Hello::kHeadBytes;
    const std::size_t identity = has_head ? identity_bytes(bytes) : 0;
    if (identity > kLongestIdentity) return State::kDone;
    if (has_head && bytes.size() == Hello::kHeadBytes + identity) return judge(visitor);
    char more[Hello::kHeadBytes + kLongestIdentity];
    const Moved moved = receive_some(visitor.socket, more, Hello::kHeadBytes + identity - bytes.size());
    if (moved.closed) return State::kDone;
    if (moved.bytes == 0) return State::kWaiting;
    bytes.append(more, moved.bytes);
    if (!may_be_hello(bytes)) return State::kDone;
  }
}

Door::State Door::judge(Visitor& visitor) {
  const Hello hello = parse_hello(visitor.bytes);
  Verdict verdict = Verdict::kWrongSecret;
  std::string text;
  if (knows_secret(secret_, visitor.nonce, hello)) {
    text = judge_(hello.identity);
    verdict = text.empty() ? Verdict::kWelcome : Verdict::kRefused;
  }
  const std::string answer = answer_bytes(secret_, visitor.nonce, hello, verdict, text);
  const bool sent = send_some(visitor.socket, answer.data(), answer.size()).bytes == answer.size();
  if (sent && verdict == Verdict::kWelcome) host_(std::move(visitor.socket), hello.identity);
  return State::kDone;
}

}  // namespace recollect::tcp
