// The meeting point of the processes of one run: a small key-value store on a TCP port, in a thread of its
// own. One process hosts it: our launcher, or rank 0.
//
// Whatever connects, memory and time are bounded: so many connections, bytes kept and bytes under way; who
// does not complete the handshake, a frame or the reading of a reply in time is dropped. Nobody who is
// dropped disturbs the others. The secret is never shown. It keeps strangers out; it does not hide what
// those inside say.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace recollect {

struct StoreLimits {
  std::size_t connections = 4096;
  std::size_t visitors = 512;           // of them, before the handshake; beyond, the oldest is dropped
  std::size_t stored_bytes = 64 << 20;  // keys and values
  std::size_t moving_bytes = 64 << 20;  // requests and replies under way
  std::chrono::milliseconds handshake{5000};
  std::chrono::milliseconds frame{10000};  // from its first byte to its last, either way
};

struct StoreOptions {
  // Whose interface to listen on: nobody reaches a store on a loopback address from another node.
  std::string host = "127.0.0.1";
  // The first of these that is free; 0: any.
  std::vector<uint16_t> ports = {0};
  // The same for all ranks. The run id is what discover_ranks() finds in their environment: RECOLLECT_RUN_ID
  // where it is set.
  std::string run_id = {}, token = {};
  // How long ports may stay taken, by connections that wind up.
  std::chrono::milliseconds patience{0};
  StoreLimits limits = {};
};

class StoreServer {
 public:
  // Error kConfiguration: the host is not an address of this node, or no port is to be had.
  explicit StoreServer(const StoreOptions& options);
  // Everybody still connected sees the store go.
  ~StoreServer();

  uint16_t port() const;
  std::string address() const;  // "127.0.0.1:29500"

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace recollect
