// The store is the meeting point of the processes of one run: a small key-value store on a TCP port, in its
// own thread. One process hosts it: our launcher, or rank 0.
//
// Memory and time are limited, whatever connects: the number of connections, the bytes stored and the bytes
// in transfer. A client that does not complete the handshake, a frame or the reading of a reply in time is
// dropped, without disturbing the others. The secret is never sent. It keeps strangers out; it does not
// encrypt what clients send.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace recollect {

struct StoreLimits {
  std::size_t connections = 4096;
  std::size_t visitors = 512;           // connections before the handshake; beyond that the oldest is dropped
  std::size_t stored_bytes = 64 << 20;  // keys and values
  std::size_t moving_bytes = 64 << 20;  // requests and replies in transfer
  std::chrono::milliseconds handshake{5000};
  std::chrono::milliseconds frame{10000};  // from first to last byte of a frame, in either direction
};

struct StoreOptions {
  // The host whose interface to listen on. Other nodes cannot reach a store on a loopback address.
  std::string host = "127.0.0.1";
  // The first free port of these is used; 0: any port.
  std::vector<uint16_t> ports = {0};
  // The same for all ranks. The run id is the one that discover_ranks() finds in their environment:
  // RECOLLECT_RUN_ID if it is set.
  std::string run_id = {}, token = {};
  // How long to retry if the ports are taken, for example by connections that are closing.
  std::chrono::milliseconds patience{0};
  StoreLimits limits = {};
};

class StoreServer {
 public:
  // Throws Error kConfiguration if the host is not an address of this node, or if no port is free.
  explicit StoreServer(const StoreOptions& options);
  // All connected clients see the store go.
  ~StoreServer();

  uint16_t port() const;
  std::string address() const;  // "127.0.0.1:29500"

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace recollect
