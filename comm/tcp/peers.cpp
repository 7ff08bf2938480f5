#include "comm/tcp/peers.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "comm/collective_call.h"
#include "engine/core/duration.h"
#include "engine/core/error.h"

namespace recollect::tcp {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kControlGroup = 0;
constexpr char kGoodBye = 'L', kStop = 'A', kDisagree = 'D', kWait = 'W';
constexpr std::size_t kLongestText = 1000, kHead = 3;
static_assert(sizeof(WaitPost) <= kLongestText);
constexpr auto kPauseBetweenCalls = 20ms;
constexpr auto kNewsTime = 1s;
constexpr const char* kPeerWord = "peer ";

std::string identity_of(uint64_t group, int rank) {
  return kPeerWord + std::to_string(group) + " " + std::to_string(rank);
}

// Returns group and rank; a negative rank if the text is anything else.
std::pair<uint64_t, int> parse_identity(const std::string& text) {
  const std::string word = kPeerWord;
  std::pair<uint64_t, int> peer{0, -1};
  if (!text.starts_with(word)) return peer;
  const char *begin = text.data() + word.size(), *end = text.data() + text.size();
  const auto group = std::from_chars(begin, end, peer.first);
  if (group.ec != std::errc() || group.ptr == end || *group.ptr != ' ') return peer;
  const auto rank = std::from_chars(group.ptr + 1, end, peer.second);
  if (rank.ec != std::errc() || rank.ptr != end) peer.second = -1;
  return peer;
}

std::string message_of(char kind, std::string_view text) {
  const std::size_t length = std::min(text.size(), kLongestText);
  std::string message{kind, static_cast<char>(length & 255), static_cast<char>(length >> 8)};
  return message.append(text.substr(0, length));
}

}  // namespace

Peers::Peers(int rank, std::vector<Address> places, Socket listener, std::string secret,
             std::chrono::milliseconds timeout)
    : rank_(rank),
      places_(std::move(places)),
      secret_(std::move(secret)),
      timeout_(timeout),
      posts_(std::make_shared<WaitPosts>(static_cast<int>(places_.size()), timeout)),
      door_(
          std::move(listener), secret_, Door::Limits{},
          [this](const std::string& identity) { return judge(identity); },
          [this](Socket socket, const std::string& identity) { let_in(std::move(socket), identity); }) {
  files_.reserve(places_.size() + Door::Limits{}.visitors + 2);  // never grows: tests count allocations
  thread_ = std::thread([this] { attend(); });
}

Peers::~Peers() {
  if (stopped_)
    tell_of_stop();
  else
    tell_all(std::string(1, kGoodBye));
  quitting_ = true;
  wake_.raise();
  thread_.join();
}

std::string Peers::judge(const std::string& identity) const {
  const auto [group, rank] = parse_identity(identity);
  if (rank < 0 || rank >= static_cast<int>(places_.size()) || rank == rank_)
    return "it expects the other ranks of its run here";
  const std::lock_guard lock(mutex_);
  if (arrived_.contains({group, rank})) return "two processes are rank " + std::to_string(rank);
  return {};
}

void Peers::let_in(Socket socket, const std::string& identity) {
  const std::lock_guard lock(mutex_);
  arrived_[parse_identity(identity)] = std::move(socket);
  news_.notify_all();
}

// Of two ranks, the one with the higher rank connects. Its peer has listened since before its address was
// published, so a refused connection means that the peer has gone.
Socket Peers::call(uint64_t group, int rank, std::chrono::milliseconds timeout, Clock::time_point deadline) {
  const std::string name = "rank " + std::to_string(rank), place = places_[rank].to_string();
  std::string problem;
  while (true) {
    if (stopped_) give_up(stop_reason());
    int error = 0;
    Socket socket = connect_to(places_[rank], deadline, error);
    if (socket) {
      const Introduction met = introduce(socket, secret_, identity_of(group, rank_), deadline);
      if (met.outcome == Introduction::Outcome::kWelcome) return socket;
      if (met.outcome != Introduction::Outcome::kSilent)
        give_up("what answers at " + place + " is not " + name + " of this run: " + met.text);
      problem = "something that " + met.text;
    } else {
      problem = error_text(error);
      if (error == ECONNREFUSED) give_up(name + " at " + place + " has gone");
    }
    if (Clock::now() >= deadline)
      give_up("rank " + std::to_string(rank_) + " could not connect to " + name + " at " + place +
              " within " + duration_text(timeout) + ": " + problem);
    std::this_thread::sleep_for(kPauseBetweenCalls);
  }
}

// Collects the connections of ranks that call this one. Returns the ranks that have not called by the
// deadline.
std::vector<int> Peers::collect(uint64_t group, const std::vector<int>& members, Clock::time_point deadline,
                                std::vector<Socket>& sockets) {
  std::unique_lock lock(mutex_);
  std::vector<int> missing;
  const auto all_here = [&] {
    missing.clear();
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (members[i] <= rank_ || sockets[i]) continue;
      const auto found = arrived_.find({group, members[i]});
      if (found == arrived_.end()) {
        missing.push_back(members[i]);
      } else {
        sockets[i] = std::move(found->second);
        arrived_.erase(found);
      }
    }
    return missing.empty() || stopped_;
  };
  news_.wait_until(lock, deadline, all_here);
  return missing;
}

std::vector<Socket> Peers::connect(uint64_t group, const std::vector<int>& members,
                                   std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  std::vector<Socket> sockets(members.size());
  for (std::size_t i = 0; i < members.size(); ++i)
    if (members[i] < rank_) sockets[i] = call(group, members[i], timeout, deadline);
  const std::vector<int> missing = collect(group, members, deadline, sockets);
  if (!missing.empty() && stopped_) give_up(stop_reason());
  if (!missing.empty())
    give_up(name_ranks(missing) + " did not connect to rank " + std::to_string(rank_) + " within " +
            duration_text(timeout));
  return sockets;
}

void Peers::give_up(const std::string& reason) {
  stop(reason);
  throw Error(ExitCode::kPeerLost,
              "rank " + std::to_string(rank_) + " cannot connect to the others: " + reason,
              "look for the first error among the other ranks' messages");
}

void Peers::watch_each_other(std::chrono::milliseconds timeout) {
  std::vector<int> everybody(places_.size());
  for (std::size_t i = 0; i < everybody.size(); ++i) everybody[i] = static_cast<int>(i);
  std::vector<Socket> sockets = connect(kControlGroup, everybody, timeout);
  const std::lock_guard lock(mutex_);
  controls_.resize(sockets.size());
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    if (sockets[i]) keep_alive(sockets[i]);
    controls_[i].socket = std::move(sockets[i]);
  }
  wake_.raise();
}

void Peers::attend() {
  while (!quitting_) {
    try {
      attend_once();
    } catch (const std::exception& error) {
      note_stop("rank " + std::to_string(rank_) + " cannot attend to the others: " + error.what(),
                ExitCode::kPeerLost);
      return;
    }
  }
}

void Peers::attend_once() {
  files_.clear();
  files_.push_back({wake_.file().descriptor(), POLLIN, 0});
  std::size_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    count = controls_.size();
    for (const Control& control : controls_) {
      const bool listening = control.socket && control.presence == Presence::kHere;
      files_.push_back({listening ? control.socket.descriptor() : -1, POLLIN, 0});
    }
  }
  door_.add_to(files_, false);
  wait_for(files_, door_.next_deadline());
  if (files_[0].revents != 0) wake_.clear();
  for (std::size_t r = 0; r < count; ++r)
    if (files_[1 + r].revents != 0) hear(static_cast<int>(r), controls_[r]);
  door_.serve(files_);
}

bool Peers::take_message(int rank, Control& control, Parting& parting) {
  std::string& heard = control.heard;
  if (!heard.empty() && heard[0] == kGoodBye) {
    parting.presence = Presence::kLeft;
    return true;
  }
  if (heard.size() < kHead) return false;
  const std::size_t length = static_cast<unsigned char>(heard[1]) |
                             static_cast<std::size_t>(static_cast<unsigned char>(heard[2])) << 8;
  if (heard.size() < kHead + length) return false;
  if (heard[0] == kWait && length == sizeof(WaitPost)) {
    WaitPost post;
    std::memcpy(&post, heard.data() + kHead, sizeof post);
    if (post.rank == rank) posts_->note(post);
  } else {
    parting = {Presence::kLost, heard.substr(kHead, length),
               heard[0] == kDisagree ? ExitCode::kRanksDisagree : ExitCode::kPeerLost};
  }
  heard.erase(0, kHead + length);
  return true;
}

// Bytes after a good-bye or a reason are ignored.
void Peers::hear(int rank, Control& control) {
  const std::string name = "rank " + std::to_string(rank);
  char bytes[kHead + kLongestText];
  const Moved moved = receive_some(control.socket, bytes, sizeof bytes);
  Parting parting;
  control.heard.append(bytes, moved.bytes);
  while (parting.presence == Presence::kHere && take_message(rank, control, parting)) {
  }
  if (moved.closed && parting.presence == Presence::kHere) {
    const bool broken = moved.error != 0 && moved.error != ECONNRESET;
    parting = {Presence::kLost, broken ? "the connection to " + name + " broke: " + error_text(moved.error)
                                       : "the process of " + name + " has ended"};
  }
  if (parting.presence == Presence::kHere) return;
  // The reason is noted first, because a rank that sees the loss asks for it.
  if (!parting.reason.empty()) note_stop(parting.reason, parting.code);
  const std::lock_guard lock(mutex_);
  control.presence = parting.presence;
  news_.notify_all();
}

void Peers::note_stop(const std::string& reason, ExitCode code) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    code_ = code;
    try {
      reason_ = reason;
    } catch (...) {
      reason_.clear();
    }
    stopped_ = true;
    news_.notify_all();
  }
  stop_signal_.raise();
}

void Peers::stop(const std::string& reason) noexcept {
  note_stop(reason, disagrees_ ? ExitCode::kRanksDisagree : ExitCode::kPeerLost);
  tell_of_stop();
}

void Peers::tell_of_stop() noexcept {
  try {
    tell_all(message_of(stop_code() == ExitCode::kRanksDisagree ? kDisagree : kStop, stop_reason()));
  } catch (...) {
    tell_all(std::string(1, kStop));
  }
}

void Peers::tell(const WaitPost& post) noexcept {
  try {
    tell_all(message_of(kWait, {reinterpret_cast<const char*>(&post), sizeof post}));
  } catch (...) {  // without memory the post is lost
  }
}

// The messages are short and use connections that carry nothing else, so they fit without waiting.
void Peers::tell_all(const std::string& message) noexcept {
  const std::lock_guard lock(mutex_);
  for (const Control& control : controls_)
    if (control.socket && control.presence == Presence::kHere)
      send_some(control.socket, message.data(), message.size());
}

std::string Peers::stop_reason() const {
  const std::lock_guard lock(mutex_);
  return reason_.empty() ? "a rank stopped" : reason_;
}

ExitCode Peers::stop_code() const {
  const std::lock_guard lock(mutex_);
  return code_;
}

std::string Peers::why_lost(int rank) {
  std::unique_lock lock(mutex_);
  const auto known = [&] { return stopped_ || controls_[rank].presence != Presence::kHere; };
  news_.wait_for(lock, kNewsTime, known);
  return stopped_ ? reason_ : "rank " + std::to_string(rank) + " has left the group";
}

}  // namespace recollect::tcp
