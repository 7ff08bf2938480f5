// How two processes of a run make sure of each other before a connection is used. The listener greets with a
// random number; the caller answers who it is, with a code that only someone who knows the secret can make of
// both numbers; the listener proves itself the same way. The secret never travels, and an answer that was
// overheard opens nothing later. What follows is neither encrypted nor signed: this keeps strangers and the
// processes of other runs out, not someone who can change what others send.
//
// The caller sends nothing before it has seen the greeting, so that asking at a port where somebody else
// listens disturbs nobody.
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

// Whether this can still become a Hello; to be asked of the first bytes, as they come.
bool may_be_hello(std::string_view first_bytes);
// Of a complete head; more than kLongestIdentity means that it is none.
std::size_t identity_bytes(std::string_view head);
// Of all bytes.
Hello parse_hello(std::string_view bytes);

enum class Verdict : unsigned char { kWelcome = 0, kWrongSecret = 1, kRefused = 2 };

// The listener's last word. `text` says why somebody who knows the secret is refused.
std::string answer_bytes(const std::string& secret, const Nonce& listener, const Hello& hello,
                         Verdict verdict, std::string text);
bool knows_secret(const std::string& secret, const Nonce& listener, const Hello& hello);

// What came of calling somebody.
struct Introduction {
  enum class Outcome { kWelcome, kWrongSecret, kRefused, kStranger, kSilent };
  Outcome outcome = Outcome::kSilent;
  std::string text;  // kRefused: why; kStranger, kSilent: what was seen instead
};
Introduction introduce(const Socket& socket, const std::string& secret, const std::string& identity,
                       Clock::time_point deadline);

// HMAC-SHA-256.
Code code_of(const std::string& secret, const std::string& message);

}  // namespace recollect::tcp
