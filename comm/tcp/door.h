// A listener with a handshake. It admits callers that complete the handshake in time and forgets all others:
// garbage, a wrong secret, slow and silent ones. Its resources are limited: a maximum number of visitors at
// once, of which the oldest leaves first, with less than a kilobyte each. One thread serves it from its poll
// loop.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "comm/tcp/handshake.h"

namespace recollect::tcp {

class Door {
 public:
  struct Limits {
    std::size_t visitors = 512;                // at the same time, before they are admitted
    std::chrono::milliseconds patience{5000};  // for one visitor
  };
  // Returns why a caller that knows the secret is refused; empty: it is admitted.
  using Judge = std::function<std::string(const std::string& identity)>;
  using Host = std::function<void(Socket socket, const std::string& identity)>;

  Door(Socket listener, std::string secret, Limits limits, Judge judge, Host host);

  // Appends the files to poll; serve() then looks at the same entries. `is_full` refuses newcomers for now.
  void add_to(std::vector<pollfd>& files, bool is_full);
  void serve(const std::vector<pollfd>& files);
  // The latest time at which serve() must be called.
  Clock::time_point next_deadline() const;
  Address address() const { return Address::of_this_end(listener_); }

 private:
  struct Visitor {
    Socket socket;
    Nonce nonce;
    std::string bytes;  // of its Hello, as far as received
    Clock::time_point deadline;
  };
  enum class State { kWaiting, kDone };

  void accept_all();
  void greet(Socket socket);
  State hear(Visitor& visitor);
  State judge(Visitor& visitor);

  Socket listener_;
  std::string secret_;
  Limits limits_;
  Judge judge_;
  Host host_;
  std::list<Visitor> visitors_;  // oldest first
  std::size_t first_ = 0;        // first of its polled entries: the listener, then the visitors
  bool asked_listener_ = false;
  Clock::time_point pause_until_{};  // set when no file descriptor was available
};

}  // namespace recollect::tcp
