#include "comm/store/client.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "comm/tcp/handshake.h"
#include "engine/core/duration.h"
#include "engine/core/error.h"

namespace recollect {
namespace {

using store::Operation;
using store::Request;
using store::Status;
using tcp::Clock;
using tcp::Introduction;
using tcp::Transfer;
using namespace std::chrono_literals;

// How long to try an address until someone answers. It is short at first if there are several addresses.
constexpr Clock::duration kShortCall = 1s, kLongCall = 5s;
constexpr auto kFirstPause = 20ms, kLongestPause = 500ms;
constexpr auto kAnswerTime = 15s;  // in addition to the timeout of the request

const char* const kTokenHint =
    "give all ranks the same RECOLLECT_STORE_TOKEN_FILE or RECOLLECT_STORE_TOKEN, and each run its own port";
const char* const kRunHint =
    "another run holds this port: choose another MASTER_PORT, or give all ranks of a run one "
    "RECOLLECT_RUN_ID";
const char* const kPortHint = "another program listens there: choose another MASTER_PORT";

void check_key(const std::string& key) {
  require(!key.empty() && key.size() <= store::kLongestKey,
          "a key of " + std::to_string(key.size()) + " bytes for the store");
}

}  // namespace

std::string StorePlace::to_string() const {
  std::string text = host + ":";
  for (std::size_t i = 0; i < ports.size(); ++i) text += (i ? "," : "") + std::to_string(ports[i]);
  return text;
}

StoreClient::StoreClient(const StorePlace& place, const std::string& token, const std::string& run_id,
                         int rank, Milliseconds timeout)
    : run_id_(run_id), rank_(rank), timeout_(timeout), exceptions_(std::uncaught_exceptions()) {
  if (run_id.size() > store::kLongestRunId)
    throw Error(ExitCode::kConfiguration,
                "a run id of " + std::to_string(run_id.size()) + " bytes; the longest has " +
                    std::to_string(store::kLongestRunId),
                "give the run a shorter RECOLLECT_RUN_ID");
  const auto deadline = Clock::now() + timeout;
  Clock::duration pause = kFirstPause, patience = place.ports.size() > 1 ? kShortCall : kLongCall;
  std::string problem;
  while (!connect(place, token, problem, patience, deadline)) {
    const auto now = Clock::now();
    if (now >= deadline)
      throw Error(ExitCode::kPeerLost,
                  who() + " did not reach the store of its run at " + place.to_string() + " within " +
                      duration_text(timeout) + (problem.empty() ? "" : "; " + problem),
                  "was the process that hosts it started (rank 0, or the launcher), and is MASTER_ADDR an "
                  "address that this node reaches?");
    std::this_thread::sleep_for(std::min<Clock::duration>(pause, deadline - now));
    pause = std::min<Clock::duration>(2 * pause, kLongestPause);
    patience = std::min(2 * patience, kLongCall);
  }
  tcp::keep_alive(socket_);
}

bool StoreClient::connect(const StorePlace& place, const std::string& token, std::string& problem,
                          Clock::duration patience, Clock::time_point deadline) {
  std::string unknown, tried;
  const auto addresses = tcp::resolve(place.host, 0, unknown);
  if (addresses.empty()) tried = "'" + place.host + "': " + unknown;
  const bool only_one = place.ports.size() == 1;
  for (const uint16_t port : place.ports)
    for (const tcp::Address& address : addresses) {
      std::string why;
      const auto this_deadline = std::min(deadline, Clock::now() + patience);
      if (call(address.with_port(port), only_one, token, why, this_deadline)) return true;
      tried += (tried.empty() ? "" : "; ") + address.with_port(port).to_string() + ": " + why;
    }
  problem = tried;
  return false;
}

// With a single port, whoever answers there is the intended store, and its refusal is final.
bool StoreClient::call(const tcp::Address& address, bool only_one, const std::string& token,
                       std::string& problem, Clock::time_point deadline) {
  int error = 0;
  tcp::Socket socket = tcp::connect_to(address, deadline, error);
  if (!socket) {
    problem = tcp::error_text(error);
    return false;
  }
  const std::string identity = store::to_bytes(store::Identity{rank_, run_id_});
  const Introduction met = tcp::introduce(socket, token, identity, deadline);
  const auto refuse = [&](const std::string& what, const char* hint) {
    if (only_one) throw Error(ExitCode::kConfiguration, what, hint);
    problem = what;
    return false;
  };
  const std::string there = "the store at " + address.to_string();
  switch (met.outcome) {
    case Introduction::Outcome::kWelcome:
      socket_ = std::move(socket);
      address_ = address.to_string();
      return true;
    case Introduction::Outcome::kWrongSecret:
      return refuse(there + " and this process have different tokens", kTokenHint);
    case Introduction::Outcome::kRefused:
      return refuse(there + " refuses this process: " + met.text, kRunHint);
    case Introduction::Outcome::kStranger:
      return refuse("what answers at " + address.to_string() + " is no store: " + met.text, kPortHint);
    case Introduction::Outcome::kSilent:
      problem = "something that " + met.text;
  }
  return false;
}

StoreClient::~StoreClient() {
  if (!socket_ || std::uncaught_exceptions() > exceptions_) return;
  const std::string body = store::to_bytes(Request{.operation = Operation::kLeave});
  const std::string frame = store::length_prefix(body.size()) + body;
  tcp::send_some(socket_, frame.data(), frame.size());
}

std::string StoreClient::who() const {
  const std::string run = run_id_.empty() ? std::string() : " of run '" + run_id_ + "'";
  return (rank_ < 0 ? "a process" : "rank " + std::to_string(rank_)) + run;
}

std::string StoreClient::own_host() const { return tcp::Address::of_this_end(socket_).host(); }

void StoreClient::lose(const std::string& what, const char* how) {
  socket_.close();
  throw Error(ExitCode::kPeerLost, "the store at " + address_ + " " + how + " while " + who() + " " + what,
              "look for the first error of the process that hosts it (rank 0, or the launcher)");
}

StoreClient::Answer StoreClient::ask(const Request& request, const std::string& what) {
  if (!socket_) lose(what, "was lost earlier");
  const auto deadline = Clock::now() + request.timeout + kAnswerTime;
  const std::string body = store::to_bytes(request);
  const std::string frame = store::length_prefix(body.size()) + body;
  const auto expect = [&](Transfer transfer) {
    if (transfer == Transfer::kLate) lose(what, "did not answer");
    if (transfer == Transfer::kClosed) lose(what, "has gone");
  };
  expect(tcp::send_all(socket_, frame.data(), frame.size(), deadline));
  char prefix[store::kLengthBytes];
  expect(tcp::receive_all(socket_, prefix, sizeof prefix, deadline));
  const std::size_t length = store::parse_length(prefix);
  if (length == 0 || length > store::kLongestReply) lose(what, "answered nonsense");
  std::string reply(length, '\0');
  expect(tcp::receive_all(socket_, reply.data(), length, deadline));
  return {static_cast<Status>(reply.front()), reply.substr(1)};
}

void StoreClient::check(const Answer& answer, const std::string& what) const {
  if (answer.status == Status::kOk) return;
  if (answer.status == Status::kFull)
    throw Error(ExitCode::kHostMemory, "the store at " + address_ + " is full: " + who() + " " + what);
  require(answer.status == Status::kNotANumber,
          "the store answers with status " + std::to_string(static_cast<int>(answer.status)));
  require(false, who() + " " + what + ", which is no number that can be added to");
}

void StoreClient::set(const std::string& key, std::string_view value) {
  check_key(key);
  require(value.size() <= store::kLongestValue,
          "a value of " + std::to_string(value.size()) + " bytes for the store");
  const std::string what = "set '" + key + "'";
  check(ask({.operation = Operation::kSet, .keys = {key}, .value = std::string(value)}, what), what);
}

std::string StoreClient::get(const std::string& key, Milliseconds timeout) {
  check_key(key);
  const std::string what = "waited for '" + key + "'";
  Answer answer = ask({.operation = Operation::kGet, .timeout = timeout, .keys = {key}}, what);
  if (answer.status == Status::kLate)
    throw Error(ExitCode::kPeerLost, who() + " " + what + " in the store at " + address_ +
                                         "; nobody set it within " + duration_text(timeout));
  check(answer, what);
  return std::move(answer.text);
}

int64_t StoreClient::add(const std::string& key, int64_t delta) {
  check_key(key);
  const std::string what = "added to '" + key + "'";
  const Answer answer = ask({.operation = Operation::kAdd, .keys = {key}, .number = delta}, what);
  check(answer, what);
  return std::stoll(answer.text);
}

void StoreClient::wait(const std::vector<std::string>& keys, Milliseconds timeout) {
  require(keys.size() <= store::kMostKeys, "a wait for " + std::to_string(keys.size()) + " keys");
  for (const std::string& key : keys) check_key(key);
  if (keys.empty()) return;
  const std::string what = "waited for " + std::to_string(keys.size()) + " keys";
  const Answer answer = ask({.operation = Operation::kWait, .timeout = timeout, .keys = keys}, what);
  if (answer.status == Status::kLate)
    throw Error(ExitCode::kPeerLost, who() + " " + what + " in the store at " + address_ + "; nobody set " +
                                         answer.text + " within " + duration_text(timeout));
  check(answer, what);
}

void StoreClient::erase(const std::string& key) {
  check_key(key);
  const std::string what = "erased '" + key + "'";
  check(ask({.operation = Operation::kErase, .keys = {key}}, what), what);
}

void StoreClient::barrier(const std::string& name, int size, Milliseconds timeout) {
  check_key(name);
  const std::string what = "waited in the barrier '" + name + "'";
  const Answer answer =
      ask({.operation = Operation::kBarrier, .timeout = timeout, .keys = {name}, .number = size}, what);
  const std::string start = "barrier '" + name + "' of " + std::to_string(size) + " ranks: " + answer.text;
  switch (answer.status) {
    case Status::kLate:
      throw Error(ExitCode::kPeerLost, start + " did not come within " + duration_text(timeout),
                  "were all " + std::to_string(size) + " processes started?");
    case Status::kPeerGone:
      throw Error(ExitCode::kPeerLost, start + " has gone",
                  "look for the first error among the other ranks' messages");
    case Status::kDisagree:
      throw Error(ExitCode::kRanksDisagree, start, "start all ranks of a run with the same world size");
    case Status::kTwice:
    case Status::kOutOfRange:
      throw Error(ExitCode::kConfiguration, start,
                  "give every run its own RECOLLECT_RUN_ID and every process its own rank");
    default:
      check(answer, what);
  }
}

}  // namespace recollect
