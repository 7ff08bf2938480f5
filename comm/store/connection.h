// The server's end of one connection. At most one request is in progress: arriving, waiting, or being
// answered. Memory for a request is taken as its bytes arrive, not when its length is announced.
#pragma once

#include <optional>
#include <string>

#include "comm/store/contents.h"
#include "comm/store/server.h"
#include "comm/tcp/socket.h"

namespace recollect::store {

class Connection {
 public:
  // `moving_bytes` counts the bytes that all connections hold.
  Connection(tcp::Socket socket, int rank, uint64_t here_since, const StoreLimits& limits,
             std::size_t& moving_bytes);
  ~Connection() { account(0); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const tcp::Socket& socket() const { return socket_; }
  int rank() const { return rank_; }
  uint64_t here_since() const { return here_since_; }
  short events() const;
  // When the other end must have finished its part of a frame.
  tcp::Clock::time_point deadline() const { return deadline_; }

  // Transfers what is possible without waiting. Returns false if the other end has gone or breaks the
  // protocol.
  bool move();
  // Returns a complete request, unless an earlier one is still in progress.
  std::optional<std::string> take_request();
  void reply(const Reply& reply);

  // Keeps the request, which cannot be answered yet.
  void wait(Request request, uint64_t turn);
  bool is_waiting() const { return waiting_.has_value(); }
  tcp::Clock::time_point waits_until() const { return waits_until_; }
  const Request& request() const { return *waiting_; }
  uint64_t turn() const { return turn_; }  // of the barrier in which it waits

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
  std::string in_;        // length and body, as far as received
  std::string out_head_;  // length and status of the current reply
  Value out_;             // its value
  std::size_t sent_ = 0;  // bytes of both
  std::optional<Request> waiting_;
  uint64_t turn_ = 0;
};

}  // namespace recollect::store
