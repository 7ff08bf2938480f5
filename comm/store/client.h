// A process's connection to the store of its run; for one thread at a time. Every call has a bound. A store
// that goes away, does not answer or cannot be reached in time is kPeerLost; another secret or another run is
// kConfiguration.
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
  std::vector<uint16_t> ports;  // it listens on one of them
  std::string to_string() const;
};

class StoreClient {
 public:
  using Milliseconds = std::chrono::milliseconds;

  // Calls until the store answers: it may start later than its clients. `rank`: -1 for who has none.
  StoreClient(const StorePlace& place, const std::string& token, const std::string& run_id, int rank,
              Milliseconds timeout);
  // Says good-bye, unless an Error is on its way: then the others are to hear that this rank has gone.
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  // Keys have 1 to 256 bytes, values up to 1 MiB. Error kHostMemory when the store is full.
  void set(const std::string& key, std::string_view value);
  // Waits until somebody has set it.
  std::string get(const std::string& key, Milliseconds timeout);
  // To a number in decimal text, 0 where there is none; returns the sum.
  int64_t add(const std::string& key, int64_t delta);
  void wait(const std::vector<std::string>& keys, Milliseconds timeout);
  void erase(const std::string& key);
  // Returns when ranks 0 to size - 1 have called it; the name can then be used again. Errors: kPeerLost names
  // the ranks that are missing or have gone, kRanksDisagree for different sizes, kConfiguration for two
  // processes of one rank.
  void barrier(const std::string& name, int size, Milliseconds timeout);

  // Of the interface that reaches the store: where others can reach this process, numerically.
  std::string own_host() const;
  std::string address() const { return address_; }  // the store's

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
  const int exceptions_;  // under way when this was made
  tcp::Socket socket_;
  std::string address_;
};

}  // namespace recollect
