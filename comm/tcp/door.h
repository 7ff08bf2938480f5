// Lets in whoever completes the handshake in time, and forgets everybody else: garbage, the wrong secret, the
// slow and the silent. Bounded whatever comes: so many visitors at once, the oldest leaving first, and less
// than a kilobyte for each. Served by one thread, from its poll loop.
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
    std::size_t visitors = 512;                // at once, before they are let in
    std::chrono::milliseconds patience{5000};  // for one of them
  };
  // Why somebody who knows the secret is not let in; empty: welcome.
  using Judge = std::function<std::string(const std::string& identity)>;
  using Host = std::function<void(Socket socket, const std::string& identity)>;

  Door(Socket listener, std::string secret, Limits limits, Judge judge, Host host);

  // What to poll for, appended; serve() then looks at the same entries. `is_full` closes the door to
  // newcomers.
  void add_to(std::vector<pollfd>& files, bool is_full);
  void serve(const std::vector<pollfd>& files);
  // When serve() has to be called at the latest.
  Clock::time_point next_deadline() const;
  Address address() const { return Address::of_this_end(listener_); }

 private:
  struct Visitor {
    Socket socket;
    Nonce nonce;
    std::string bytes;  // of its Hello, as far as it has come
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
  std::size_t first_ = 0;        // of the polled entries: the listener's, then the visitors'
  bool asked_listener_ = false;
  Clock::time_point pause_until_{};  // no descriptor was to be had
};

}  // namespace recollect::tcp
