#include "comm/tcp/handshake.h"

#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <sys/random.h>

#include <algorithm>
#include <cstring>

#include "engine/core/error.h"

namespace recollect::tcp {
namespace {

constexpr std::size_t kAnswerHead = 1 + sizeof(Code) + 2;

template <typename Bytes>
std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string two_bytes(std::size_t value) {
  return {static_cast<char>(value & 255), static_cast<char>(value >> 8)};
}

std::size_t from_two_bytes(std::string_view bytes) {
  return static_cast<unsigned char>(bytes[0]) | static_cast<std::size_t>(static_cast<unsigned char>(bytes[1]))
                                                    << 8;
}

Code callers_code(const std::string& secret, const Nonce& listener, const Hello& hello) {
  return code_of(secret, "caller" + text_of(listener) + text_of(hello.nonce) + hello.identity);
}

Code listeners_code(const std::string& secret, const Nonce& listener, const Nonce& caller, Verdict verdict,
                    const std::string& text) {
  return code_of(secret,
                 "listener" + text_of(listener) + text_of(caller) + static_cast<char>(verdict) + text);
}

bool same(const Code& a, const Code& b) { return nettle_memeql_sec(a.data(), b.data(), a.size()) == 1; }

Introduction not_met(Transfer transfer, const char* waited_for) {
  if (transfer == Transfer::kClosed)
    return {Introduction::Outcome::kSilent, std::string("hung up before ") + waited_for};
  return {Introduction::Outcome::kSilent, std::string("did not send ") + waited_for};
}

}  // namespace

Nonce make_nonce() {
  Nonce nonce;
  const ssize_t got = getrandom(nonce.data(), nonce.size(), 0);  // so few bytes always come at once
  require(got == static_cast<ssize_t>(nonce.size()), "no random numbers are to be had");
  return nonce;
}

Code code_of(const std::string& secret, const std::string& message) {
  static_assert(std::tuple_size_v<Code> == SHA256_DIGEST_SIZE);
  hmac_sha256_ctx context{};
  hmac_sha256_set_key(&context, secret.size(), reinterpret_cast<const uint8_t*>(secret.data()));
  hmac_sha256_update(&context, message.size(), reinterpret_cast<const uint8_t*>(message.data()));
  Code code{};
  hmac_sha256_digest(&context, code.size(), code.data());
  return code;
}

std::string Greeting::to_bytes() const { return std::string(kMagic) + text_of(nonce); }

std::string Hello::to_bytes() const {
  return std::string(kMagic) + text_of(nonce) + text_of(code) + two_bytes(identity.size()) + identity;
}

bool may_be_hello(std::string_view first_bytes) {
  const std::size_t length = std::min(first_bytes.size(), kMagic.size());
  return first_bytes.substr(0, length) == kMagic.substr(0, length);
}

std::size_t identity_bytes(std::string_view head) {
  return from_two_bytes(head.substr(Hello::kHeadBytes - 2, 2));
}

Hello parse_hello(std::string_view bytes) {
  Hello hello;
  std::memcpy(hello.nonce.data(), bytes.data() + kMagic.size(), sizeof(Nonce));
  std::memcpy(hello.code.data(), bytes.data() + kMagic.size() + sizeof(Nonce), sizeof(Code));
  hello.identity = bytes.substr(Hello::kHeadBytes);
  return hello;
}

std::string answer_bytes(const std::string& secret, const Nonce& listener, const Hello& hello,
                         Verdict verdict, std::string text) {
  text.resize(std::min(text.size(), kLongestAnswer));
  const Code code = listeners_code(secret, listener, hello.nonce, verdict, text);
  return static_cast<char>(verdict) + text_of(code) + two_bytes(text.size()) + text;
}

bool knows_secret(const std::string& secret, const Nonce& listener, const Hello& hello) {
  return same(hello.code, callers_code(secret, listener, hello));
}

Introduction introduce(const Socket& socket, const std::string& secret, const std::string& identity,
                       Clock::time_point deadline) {
  using Outcome = Introduction::Outcome;
  require(identity.size() <= kLongestIdentity,
          "an identity of " + std::to_string(identity.size()) + " bytes");
  char greeting[Greeting::kBytes];
  Transfer transfer = receive_all(socket, greeting, kMagic.size(), deadline);
  if (transfer != Transfer::kDone) return not_met(transfer, "a greeting");
  if (std::string_view(greeting, kMagic.size()) != kMagic)
    return {Outcome::kStranger, "it speaks another protocol"};
  transfer = receive_all(socket, greeting + kMagic.size(), sizeof(Nonce), deadline);
  if (transfer != Transfer::kDone) return not_met(transfer, "a greeting");
  Nonce listener;
  std::memcpy(listener.data(), greeting + kMagic.size(), sizeof listener);
  Hello hello{.nonce = make_nonce(), .code = {}, .identity = identity};
  hello.code = callers_code(secret, listener, hello);
  const std::string bytes = hello.to_bytes();
  transfer = send_all(socket, bytes.data(), bytes.size(), deadline);
  if (transfer != Transfer::kDone) return not_met(transfer, "an answer");
  char head[kAnswerHead];
  transfer = receive_all(socket, head, sizeof head, deadline);
  if (transfer != Transfer::kDone) return not_met(transfer, "an answer");
  const std::size_t length = from_two_bytes({head + kAnswerHead - 2, 2});
  std::string text(std::min(length, kLongestAnswer), '\0');
  if (length > kLongestAnswer) return {Outcome::kStranger, "its answer makes no sense"};
  transfer = receive_all(socket, text.data(), length, deadline);
  if (transfer != Transfer::kDone) return not_met(transfer, "an answer");
  const auto verdict = static_cast<Verdict>(head[0]);
  Code code{};
  std::memcpy(code.data(), head + 1, sizeof code);
  // A listener with another secret can neither admit nor explain.
  if (verdict == Verdict::kWrongSecret ||
      !same(code, listeners_code(secret, listener, hello.nonce, verdict, text)))
    return {Outcome::kWrongSecret, {}};
  if (verdict == Verdict::kRefused) return {Outcome::kRefused, text};
  return {Outcome::kWelcome, {}};
}

}  // namespace recollect::tcp
