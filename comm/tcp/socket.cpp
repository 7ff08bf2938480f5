#include "comm/tcp/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "engine/core/error.h"

namespace recollect::tcp {
namespace {

void set_option(const Socket& socket, int level, int name, int value) {
  ::setsockopt(socket.descriptor(), level, name, &value, sizeof value);
}

Socket make_socket(int family) {
  return Socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

template <typename Call>
Moved move_some(Call call) {
  while (true) {
    const ssize_t bytes = call();
    if (bytes > 0) return {.bytes = static_cast<std::size_t>(bytes)};
    if (bytes == 0) return {.closed = true};
    if (errno == EINTR) continue;
    if (would_block(errno)) return {};
    return {.closed = true, .error = errno};
  }
}

msghdr message_of(std::span<iovec> parts) {
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return message;
}

template <typename Byte, typename Some>
Transfer move_all(const Socket& socket, Byte* data, std::size_t bytes, short events,
                  Clock::time_point deadline, Some some) {
  while (bytes > 0) {
    const Moved moved = some(socket, data, bytes);
    if (moved.closed) return Transfer::kClosed;
    data += moved.bytes;
    bytes -= moved.bytes;
    pollfd file{socket.descriptor(), events, 0};
    if (moved.bytes == 0 && !wait_for({&file, 1}, deadline)) return Transfer::kLate;
  }
  return Transfer::kDone;
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

void Socket::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

Address::Address(const sockaddr* address, socklen_t length)
    : length_(std::min<socklen_t>(length, sizeof storage_)) {
  std::memcpy(&storage_, address, length_);
}

Address Address::of_this_end(const Socket& socket) {
  Address address;
  address.length_ = sizeof address.storage_;
  ::getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&address.storage_), &address.length_);
  return address;
}

Address Address::of_other_end(const Socket& socket) {
  Address address;
  address.length_ = sizeof address.storage_;
  ::getpeername(socket.descriptor(), reinterpret_cast<sockaddr*>(&address.storage_), &address.length_);
  return address;
}

std::string Address::host() const {
  char text[NI_MAXHOST] = {};
  const int status = ::getnameinfo(get(), length_, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return status == 0 ? text : "an unknown address";
}

uint16_t Address::port() const {
  const in_port_t port = family() == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(storage_).sin6_port
                                              : reinterpret_cast<const sockaddr_in&>(storage_).sin_port;
  return ntohs(port);
}

std::string Address::to_string() const {
  const std::string host = family() == AF_INET6 ? "[" + this->host() + "]" : this->host();
  return host + ":" + std::to_string(port());
}

bool Address::is_loopback() const {
  if (family() == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in&>(storage_).sin_addr.s_addr) >> 24 == 127;
  return family() == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(storage_).sin6_addr);
}

Address Address::with_port(uint16_t port) const {
  Address result = *this;
  if (family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(result.storage_).sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in&>(result.storage_).sin_port = htons(port);
  }
  return result;
}

bool Address::operator==(const Address& other) const { return to_string() == other.to_string(); }

std::vector<Address> resolve(const std::string& host, uint16_t port, std::string& problem) {
  addrinfo wanted{}, *list = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  const int status = ::getaddrinfo(host.c_str(), nullptr, &wanted, &list);
  if (status != 0) {
    problem = status == EAI_SYSTEM ? error_text(errno) : ::gai_strerror(status);
    return {};
  }
  std::vector<Address> found;
  for (const addrinfo* entry = list; entry; entry = entry->ai_next)
    if (entry->ai_family == AF_INET || entry->ai_family == AF_INET6)
      found.push_back(Address(entry->ai_addr, entry->ai_addrlen).with_port(port));
  ::freeaddrinfo(list);
  if (found.empty()) problem = "it has no IPv4 or IPv6 address";
  return found;
}

Socket listen_on(const Address& address, int& error) {
  Socket socket = make_socket(address.family());
  if (socket) {
    // Connections of an earlier run that are still closing must not block the port.
    set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
    if (::bind(socket.descriptor(), address.get(), address.length()) == 0 &&
        ::listen(socket.descriptor(), SOMAXCONN) == 0)
      return socket;
  }
  error = errno;
  return {};
}

Socket connect_to(const Address& address, Clock::time_point deadline, int& error) {
  Socket socket = make_socket(address.family());
  if (!socket) {
    error = errno;
    return {};
  }
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  error = ::connect(socket.descriptor(), address.get(), address.length()) == 0 ? 0 : errno;
  if (error == EINPROGRESS || error == EINTR) {
    pollfd file{socket.descriptor(), POLLOUT, 0};
    socklen_t length = sizeof error;
    error = ETIMEDOUT;
    if (wait_for({&file, 1}, deadline))
      ::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &length);
  }
  if (error != 0) return {};
  // If no one listens, TCP may connect a socket to itself: its own port is then the one it calls.
  if (Address::of_this_end(socket) == Address::of_other_end(socket)) {
    error = ECONNREFUSED;
    return {};
  }
  return socket;
}

Socket accept_from(const Socket& listener, int& error) {
  Socket socket(::accept4(listener.descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  error = socket ? 0 : errno;
  if (socket) set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  return socket;
}

void keep_alive(const Socket& socket) {
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

Moved send_some(const Socket& socket, const void* data, std::size_t bytes) {
  return move_some([&] { return ::send(socket.descriptor(), data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT); });
}

Moved receive_some(const Socket& socket, void* data, std::size_t bytes) {
  return move_some([&] { return ::recv(socket.descriptor(), data, bytes, MSG_DONTWAIT); });
}

Moved send_some(const Socket& socket, std::span<iovec> parts) {
  const msghdr message = message_of(parts);
  return move_some([&] { return ::sendmsg(socket.descriptor(), &message, MSG_NOSIGNAL | MSG_DONTWAIT); });
}

Moved receive_some(const Socket& socket, std::span<iovec> parts) {
  msghdr message = message_of(parts);
  return move_some([&] { return ::recvmsg(socket.descriptor(), &message, MSG_DONTWAIT); });
}

bool wait_for(std::span<pollfd> files, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    const auto bounded = std::clamp<int64_t>(left.count(), 0, 60'000);
    const int ready = ::poll(files.data(), files.size(), static_cast<int>(bounded));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR)
      throw Error(ExitCode::kInternal, "poll: " + error_text(errno), "this is a bug in recollect");
    if (Clock::now() >= deadline) return false;
  }
}

Transfer send_all(const Socket& socket, const void* data, std::size_t bytes, Clock::time_point deadline) {
  return move_all(socket, static_cast<const std::byte*>(data), bytes, POLLOUT, deadline,
                  [](const Socket& s, const void* d, std::size_t n) { return send_some(s, d, n); });
}

Transfer receive_all(const Socket& socket, void* data, std::size_t bytes, Clock::time_point deadline) {
  return move_all(socket, static_cast<std::byte*>(data), bytes, POLLIN, deadline,
                  [](const Socket& s, void* d, std::size_t n) { return receive_some(s, d, n); });
}

std::string error_text(int error) { return std::generic_category().message(error); }

Signal::Signal() : file_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!file_) throw Error(ExitCode::kHostMemory, "eventfd: " + error_text(errno), "raise 'ulimit -n'");
}

void Signal::raise() const noexcept {
  const uint64_t one = 1;
  while (::write(file_.descriptor(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void Signal::clear() const noexcept {
  uint64_t count;
  while (::read(file_.descriptor(), &count, sizeof count) < 0 && errno == EINTR) {
  }
}

}  // namespace recollect::tcp
