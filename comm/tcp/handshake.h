// How two processes of a run authenticate each other before they use a connection. The listener sends a
// random number (nonce). The caller answers with its identity, its own nonce and a code (HMAC-SHA-256) that
// only a process with the secret can compute from both nonces. The listener proves itself in the same way.
// The secret is never sent, and a recorded answer is useless later. The data after the handshake is neither
// encrypted nor signed: the handshake keeps out strangers and other runs, not an attacker who can change the
// traffic.
//
// The caller sends nothing before it has received the greeting, so trying a port on which another program
// listens disturbs no one.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "comm/tcp/socket.h"

namespace recollect::tcp {

inline constexpr std::string_view kMagic = "recollect tcp 1\n";
inline constexpr std::size_t kLongestIdentity = 512;
inline constexpr std::size_t kLongestAnswer = 512;  // longer texts are cut

using Nonce = std::array<unsigned char, 32>;
using Code = std::array<unsigned char, 32>;

Nonce make_nonce();

struct Greeting {
  static constexpr std::size_t kBytes = kMagic.size() + sizeof(Nonce);
  Nonce nonce;
  std::string to_bytes() const;
};

// The caller's answer: a head of fixed length, then its identity.
struct Hello {
  static constexpr std::size_t kHeadBytes = kMagic.size() + sizeof(Nonce) + sizeof(Code) + 2;
  Nonce nonce{};
  Code code{};
  std::string identity;
  std::string to_bytes() const;
};

// Returns true if these bytes can still become a Hello. Called with the first bytes, as they arrive.
bool may_be_hello(std::string_view first_bytes);
// Returns the length in a complete head; more than kLongestIdentity means that it is not a Hello.
std::size_t identity_bytes(std::string_view head);
// Parses a complete Hello.
Hello parse_hello(std::string_view bytes);

enum class Verdict : unsigned char { kWelcome = 0, kWrongSecret = 1, kRefused = 2 };

// Returns the listener's answer. `text` says why a caller that knows the secret is refused.
std::string answer_bytes(const std::string& secret, const Nonce& listener, const Hello& hello,
                         Verdict verdict, std::string text);
bool knows_secret(const std::string& secret, const Nonce& listener, const Hello& hello);

// The result of calling a listener.
struct Introduction {
  enum class Outcome { kWelcome, kWrongSecret, kRefused, kStranger, kSilent };
  Outcome outcome = Outcome::kSilent;
  std::string text;  // kRefused: why; kStranger, kSilent: what was seen instead
};
Introduction introduce(const Socket& socket, const std::string& secret, const std::string& identity,
                       Clock::time_point deadline);

// Computes HMAC-SHA-256.
Code code_of(const std::string& secret, const std::string& message);

}  // namespace recollect::tcp
