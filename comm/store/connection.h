// The server's end of one connection: at most one request is under way, arriving, waiting for something or
// being answered. Room for a request is taken as its bytes come, not because it says that it will be long.
#pragma once

#include <optional>
#include <string>

#include "comm/store/contents.h"
#include "comm/store/server.h"
#include "comm/tcp/socket.h"

namespace recollect::store {

class Connection {
 public:
  // `moving_bytes` counts what all connections hold.
  Connection(tcp::Socket socket, int rank, uint64_t here_since, const StoreLimits& limits,
             std::size_t& moving_bytes);
  ~Connection() { account(0); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const tcp::Socket& socket() const { return socket_; }
  int rank() const { return rank_; }
  uint64_t here_since() const { return here_since_; }
  short events() const;
  // When the other end has to have done its part of a frame.
  tcp::Clock::time_point deadline() const { return deadline_; }

  // Moves what can be moved without waiting; false when the other end has gone or breaks the rules.
  bool move();
  // A complete request, unless another one is still under way.
  std::optional<std::string> take_request();
  void reply(const Reply& reply);

  // The request cannot be answered yet.
  void wait(Request request, uint64_t turn);
  bool is_waiting() const { return waiting_.has_value(); }
  tcp::Clock::time_point waits_until() const { return waits_until_; }
  const Request& request() const { return *waiting_; }
  uint64_t turn() const { return turn_; }  // of the barrier that it waits in

  bool has_left = false;  // said good-bye

 private:
  bool receive();
  bool send();
  void account(std::size_t bytes);

  tcp::Socket socket_;
  const int rank_;
  const uint64_t here_since_;
  const StoreLimits& limits_;
  std::size_t& moving_bytes_;
  std::size_t accounted_ = 0;
  tcp::Clock::time_point deadline_, waits_until_;
  std::string in_;        // length and body, as far as they have come
  std::string out_head_;  // length and status of the reply under way
  Value out_;             // its value
  std::size_t sent_ = 0;  // of both
  std::optional<Request> waiting_;
  uint64_t turn_ = 0;
};

}  // namespace recollect::store
