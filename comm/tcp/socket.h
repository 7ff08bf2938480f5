// TCP sockets with RAII. They never block, never raise SIGPIPE and are closed on exec. Waiting is done with
// poll, always has a deadline, and continues after a signal.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace recollect::tcp {

using Clock = std::chrono::steady_clock;

// A file descriptor with an owner.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }

  int descriptor() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }
  void close();

 private:
  int descriptor_ = -1;
};

// An IPv4 or IPv6 address with its port.
class Address {
 public:
  Address() = default;
  Address(const sockaddr* address, socklen_t length);
  static Address of_this_end(const Socket& socket);
  static Address of_other_end(const Socket& socket);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t length() const { return length_; }
  int family() const { return storage_.ss_family; }
  std::string host() const;  // numeric
  uint16_t port() const;
  std::string to_string() const;  // "127.0.0.1:4711", "[::1]:4711"
  bool is_loopback() const;
  Address with_port(uint16_t port) const;
  bool operator==(const Address& other) const;

 private:
  sockaddr_storage storage_{};
  socklen_t length_ = 0;
};

// Resolves a name or a numeric address. Returns nothing, and the reason in `problem`, if the resolver finds
// none.
std::vector<Address> resolve(const std::string& host, uint16_t port, std::string& problem);

// Return no socket, and errno in `error`, on failure. A listener queues as many connections as the system
// allows.
Socket listen_on(const Address& address, int& error);
Socket connect_to(const Address& address, Clock::time_point deadline, int& error);
Socket accept_from(const Socket& listener, int& error);

// For a connection that is mostly silent: a peer that vanishes without closing (its node lost power, a cable
// was cut) is noticed within half a minute.
void keep_alive(const Socket& socket);

// What a socket sent or received without waiting. `closed`: the other end has gone, or `error` happened.
struct Moved {
  std::size_t bytes = 0;
  bool closed = false;
  int error = 0;
};
Moved send_some(const Socket& socket, const void* data, std::size_t bytes);
Moved receive_some(const Socket& socket, void* data, std::size_t bytes);
// The same for several pieces of memory, one after another.
Moved send_some(const Socket& socket, std::span<iovec> parts);
Moved receive_some(const Socket& socket, std::span<iovec> parts);

// Polls until something happens (true) or the deadline passes (false).
bool wait_for(std::span<pollfd> files, Clock::time_point deadline);

enum class Transfer { kDone, kLate, kClosed };
Transfer send_all(const Socket& socket, const void* data, std::size_t bytes, Clock::time_point deadline);
Transfer receive_all(const Socket& socket, void* data, std::size_t bytes, Clock::time_point deadline);

// "Connection refused"
std::string error_text(int error);

// An event that one thread raises and others poll for.
class Signal {
 public:
  Signal();
  const Socket& file() const { return file_; }
  void raise() const noexcept;
  void clear() const noexcept;

 private:
  Socket file_;
};

}  // namespace recollect::tcp
