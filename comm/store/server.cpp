#include "comm/store/server.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <new>
#include <thread>

#include "comm/store/connection.h"
#include "comm/tcp/door.h"
#include "engine/core/error.h"
#include "engine/io/open_files.h"

namespace recollect {
namespace {

using store::Connection;
using store::Operation;
using store::Reply;
using store::Request;
using store::Status;
using tcp::Clock;
using namespace std::chrono_literals;

tcp::Socket find_port(const StoreOptions& options) {
  std::string problem,
      hint = "MASTER_ADDR must be an address of the node that hosts the store, MASTER_PORT free there";
  const auto addresses = tcp::resolve(options.host, 0, problem);
  const auto deadline = Clock::now() + options.patience;
  while (problem.empty()) {
    std::string tried;
    for (const uint16_t port : options.ports)
      for (const tcp::Address& address : addresses) {
        int error = 0;
        tcp::Socket listener = tcp::listen_on(address.with_port(port), error);
        if (listener) return listener;
        tried +=
            (tried.empty() ? "" : ", ") + address.with_port(port).to_string() + ": " + tcp::error_text(error);
        if (const std::string files = open_files_hint(error); !files.empty()) hint = files;
      }
    if (Clock::now() >= deadline) problem = tried;
    std::this_thread::sleep_for(problem.empty() ? 50ms : 0ms);
  }
  throw Error(ExitCode::kConfiguration,
              "no store can be opened for the ranks on '" + options.host + "': " + problem, hint);
}

}  // namespace

class StoreServer::Loop {
 public:
  explicit Loop(const StoreOptions& options)
      : limits_(options.limits),
        run_id_(options.run_id),
        contents_(options.limits.stored_bytes),
        door_(
            find_port(options), options.token, {options.limits.visitors, options.limits.handshake},
            [this](const std::string& identity) { return judge(identity); },
            [this](tcp::Socket socket, const std::string& identity) { admit(std::move(socket), identity); }),
        address_(door_.address()),
        thread_([this] { run(); }) {}
  ~Loop() {
    stopping_ = true;
    wake_.raise();
    thread_.join();
  }
  const tcp::Address& address() const { return address_; }

 private:
  void run();
  void poll_once();
  Clock::time_point next_deadline() const;
  std::string judge(const std::string& identity) const;
  void admit(tcp::Socket socket, const std::string& identity);
  bool serve(Connection& connection);
  void execute(Connection& connection, Request request);
  void settle();
  std::optional<Reply> outcome(const Connection& connection, bool late);
  void drop(std::list<Connection>::iterator connection);

  const StoreLimits limits_;
  const std::string run_id_;
  store::Contents contents_;
  std::size_t moving_bytes_ = 0;  // outlives the connections, which count their bytes in it
  std::list<Connection> connections_;
  bool changed_ = false;  // a waiting connection may be answerable now
  std::vector<pollfd> files_;
  tcp::Signal wake_;
  std::atomic<bool> stopping_ = false;
  tcp::Door door_;
  const tcp::Address address_;
  std::thread thread_;  // last: it uses all the others
};

void StoreServer::Loop::run() {
  while (!stopping_) {
    try {
      poll_once();
    } catch (const std::bad_alloc&) {
      // The client that asked for so much is dropped; the others stay.
      if (!connections_.empty()) drop(std::prev(connections_.end()));
    }
  }
}

void StoreServer::Loop::poll_once() {
  files_.clear();
  files_.push_back({wake_.file().descriptor(), POLLIN, 0});
  for (const Connection& connection : connections_)
    files_.push_back({connection.socket().descriptor(), connection.events(), 0});
  const std::size_t inside = files_.size();
  door_.add_to(files_, connections_.size() >= limits_.connections);
  tcp::wait_for(files_, next_deadline());
  const auto now = Clock::now();
  auto connection = connections_.begin();
  for (std::size_t i = 1; i < inside; ++i) {
    const auto here = connection++;
    const bool fine = files_[i].revents == 0 || serve(*here);
    if (!fine || now >= here->deadline()) drop(here);
  }
  door_.serve(files_);
  settle();
}

Clock::time_point StoreServer::Loop::next_deadline() const {
  auto next = door_.next_deadline();
  for (const Connection& connection : connections_)
    next = std::min({next, connection.deadline(), connection.waits_until()});
  return next;
}

std::string StoreServer::Loop::judge(const std::string& identity) const {
  const auto who = store::parse_identity(identity);
  if (!who) return "it expects the ranks of a run here";
  if (who->run_id != run_id_)
    return "it belongs to run '" + run_id_ + "', this process to run '" + who->run_id + "'";
  if (connections_.size() >= limits_.connections) return "it has no room for more connections";
  return {};
}

void StoreServer::Loop::admit(tcp::Socket socket, const std::string& identity) {
  tcp::keep_alive(socket);
  const int rank = store::parse_identity(identity)->rank;
  connections_.emplace_back(std::move(socket), rank, contents_.rank_is_here(rank), limits_, moving_bytes_);
}

// Returns false if the connection must be closed. Nothing is received after the last check for a request:
// such bytes would remain unhandled until more arrive, and nothing more may arrive.
bool StoreServer::Loop::serve(Connection& connection) {
  if (!connection.move()) return false;
  while (auto bytes = connection.take_request()) {
    auto request = store::parse_request(*bytes);
    if (!request) return false;
    if (request->operation == Operation::kLeave) {
      connection.has_left = true;
      return false;
    }
    execute(connection, std::move(*request));
    if (!connection.move()) return false;
  }
  return true;
}

void StoreServer::Loop::execute(Connection& connection, Request request) {
  const std::string key = request.keys.empty() ? std::string() : request.keys.front();
  changed_ = true;
  switch (request.operation) {
    case Operation::kSet:
      return connection.reply({contents_.set(key, std::move(request.value)), nullptr});
    case Operation::kAdd:
      return connection.reply(contents_.add(key, request.number));
    case Operation::kErase:
      contents_.erase(key);
      return connection.reply({});
    case Operation::kBarrier: {
      const auto arrival = contents_.arrive(key, request.number, connection.rank(), connection.here_since());
      if (arrival.reply.status != Status::kOk) return connection.reply(arrival.reply);
      return connection.wait(std::move(request), arrival.turn);
    }
    default:
      return connection.wait(std::move(request), 0);
  }
}

// Answers every connection whose wait is over.
void StoreServer::Loop::settle() {
  const auto now = Clock::now();
  for (bool again = true; again;) {
    again = std::exchange(changed_, false);
    for (auto next = connections_.begin(); next != connections_.end();) {
      const auto here = next++;
      const bool late = now >= here->waits_until();
      if (!here->is_waiting() || (!again && !late)) continue;
      const auto reply = outcome(*here, late);
      if (!reply) continue;
      here->reply(*reply);
      if (!here->move()) drop(here);
    }
    again = changed_;
  }
}

std::optional<Reply> StoreServer::Loop::outcome(const Connection& connection, bool late) {
  const Request& request = connection.request();
  if (request.operation == Operation::kBarrier) {
    const std::string& name = request.keys.front();
    auto reply = contents_.barrier_reply(name, connection.turn());
    if (reply || !late) return reply;
    contents_.give_up_barrier(name);
    changed_ = true;
    return contents_.barrier_reply(name, connection.turn());
  }
  const auto missing = contents_.missing(request.keys);
  if (missing.empty())
    return Reply{Status::kOk,
                 request.operation == Operation::kGet ? contents_.get(request.keys.front()) : nullptr};
  if (!late) return std::nullopt;
  return Reply{Status::kLate, std::make_shared<const std::string>("'" + missing.front() + "'")};
}

void StoreServer::Loop::drop(std::list<Connection>::iterator connection) {
  const int rank = connection->rank();
  const bool unexpected = !connection->has_left;
  connections_.erase(connection);
  const bool another = std::any_of(connections_.begin(), connections_.end(),
                                   [&](const Connection& c) { return c.rank() == rank; });
  if (unexpected && !another) contents_.rank_has_gone(rank);
  changed_ = true;
}

StoreServer::StoreServer(const StoreOptions& options) : loop_(std::make_unique<Loop>(options)) {}
StoreServer::~StoreServer() = default;
uint16_t StoreServer::port() const { return loop_->address().port(); }
std::string StoreServer::address() const { return loop_->address().to_string(); }

}  // namespace recollect
