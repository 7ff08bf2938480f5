// A process's connection to the store of its run, for one thread at a time. Every call has a time limit. A
// store that goes away, does not answer or cannot be reached in time causes kPeerLost; another secret or
// another run causes kConfiguration.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/store/protocol.h"
#include "comm/tcp/socket.h"

namespace recollect {

struct StorePlace {
  std::string host;
  std::vector<uint16_t> ports;  // the store listens on one of them
  std::string to_string() const;
};

class StoreClient {
 public:
  using Milliseconds = std::chrono::milliseconds;

  // Connects, retrying until the store answers, because it may start later than its clients. `rank` is -1 for
  // a process without a rank.
  StoreClient(const StorePlace& place, const std::string& token, const std::string& run_id, int rank,
              Milliseconds timeout);
  // Says good-bye to the store, unless an Error is propagating: then the others must learn that this rank has
  // gone.
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  // Keys have 1 to 256 bytes, values up to 1 MiB. Throws Error kHostMemory if the store is full.
  void set(const std::string& key, std::string_view value);
  // Waits until the key has been set.
  std::string get(const std::string& key, Milliseconds timeout);
  // Adds to a number in decimal text, 0 if the key does not exist, and returns the sum.
  int64_t add(const std::string& key, int64_t delta);
  void wait(const std::vector<std::string>& keys, Milliseconds timeout);
  void erase(const std::string& key);
  // Returns when ranks 0 to size - 1 have called it; the name can then be used again. Throws kPeerLost,
  // naming the ranks that are missing or have gone, kRanksDisagree for different sizes, and kConfiguration
  // for two processes of one rank.
  void barrier(const std::string& name, int size, Milliseconds timeout);

  // Returns the numeric address of the interface that reaches the store: other ranks reach this process
  // there.
  std::string own_host() const;
  std::string address() const { return address_; }  // of the store

 private:
  struct Answer {
    store::Status status;
    std::string text;
  };

  bool connect(const StorePlace& place, const std::string& token, std::string& problem,
               tcp::Clock::duration patience, tcp::Clock::time_point deadline);
  bool call(const tcp::Address& address, bool only_one, const std::string& token, std::string& problem,
            tcp::Clock::time_point deadline);
  Answer ask(const store::Request& request, const std::string& what);
  void check(const Answer& answer, const std::string& what) const;
  [[noreturn]] void lose(const std::string& what, const char* how);
  std::string who() const;

  const std::string run_id_;
  const int rank_;
  const Milliseconds timeout_;
  const int exceptions_;  // number of exceptions in flight when this was made
  tcp::Socket socket_;
  std::string address_;
};

}  // namespace recollect
