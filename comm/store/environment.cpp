#include "comm/store/environment.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>

#include "comm/tcp/handshake.h"
#include "engine/core/error.h"

namespace recollect {
namespace {

constexpr std::size_t kLongestToken = 4096;
constexpr int kCandidates = 16;
constexpr uint64_t kFirstCandidate = 20000, kCandidateRange = 12000;

const char* const kPlaceHint =
    "set MASTER_ADDR to an address of rank 0's node that the others reach, and MASTER_PORT to a free port "
    "there";

std::string text(const EnvironmentLookup& lookup, const char* name) {
  const char* value = lookup(name);
  return value ? value : "";
}

[[noreturn]] void refuse(const std::string& what, const char* hint) {
  throw Error(ExitCode::kConfiguration, what, hint);
}

uint16_t read_port(const EnvironmentLookup& lookup) {
  const std::string value = text(lookup, "MASTER_PORT");
  if (value.empty()) refuse("MASTER_PORT is not set: the ranks do not know where to meet", kPlaceHint);
  int port = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), port);
  if (error != std::errc() || end != value.data() + value.size() || port < 1 || port > 65535)
    refuse("MASTER_PORT is '" + value + "', not a port", kPlaceHint);
  return static_cast<uint16_t>(port);
}

// Different runs get different port lists, as far as the range allows.
std::vector<uint16_t> candidate_ports(const std::string& run_id, uint16_t master_port) {
  const tcp::Code code = tcp::code_of("ports", run_id + ":" + std::to_string(master_port));
  std::vector<uint16_t> ports;
  for (std::size_t i = 0; ports.size() < kCandidates; ++i) {
    const uint64_t word = code[2 * i % code.size()] << 8 | code[(2 * i + 1) % code.size()];
    uint16_t port = static_cast<uint16_t>(kFirstCandidate + (word + i) % kCandidateRange);
    while (port == master_port || std::find(ports.begin(), ports.end(), port) != ports.end())
      port = static_cast<uint16_t>(kFirstCandidate + (port + 1 - kFirstCandidate) % kCandidateRange);
    ports.push_back(port);
  }
  return ports;
}

// Debian resolves a node's own name to a loopback address, which torchrun then passes on to other nodes.
void refuse_hidden_host(const std::string& host) {
  if (host.starts_with("localhost")) return;
  std::string problem, loopback;
  for (const tcp::Address& address : tcp::resolve(host, 0, problem)) {
    if (!address.is_loopback() || address.host() == host) return;
    loopback = address.host();
  }
  if (!loopback.empty())
    refuse(
        "MASTER_ADDR '" + host + "' is " + loopback + " on its own node, where other nodes cannot reach it",
        "set MASTER_ADDR to the node's address in the network (torchrun: --master-addr or --local-addr)");
}

const char* const kFileHint = "chmod 600 it, and let it belong to the user who runs the ranks";

std::string read_token_file(const std::string& path) {
  const std::string name = "RECOLLECT_STORE_TOKEN_FILE '" + path + "'";
  const tcp::Socket file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) refuse(name + ": " + tcp::error_text(errno), "it must name the file with the run's token");
  struct stat status {};
  if (::fstat(file.descriptor(), &status) != 0 || !S_ISREG(status.st_mode))
    refuse(name + " is no regular file", kFileHint);
  if (status.st_uid != ::geteuid()) refuse(name + " belongs to another user", kFileHint);
  if ((status.st_mode & 077) != 0) refuse(name + " is open to other users", kFileHint);
  std::string token(kLongestToken + 1, '\0');
  const ssize_t length = ::read(file.descriptor(), token.data(), token.size());
  token.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  if (token.empty()) refuse(name + " is empty", "it must hold the run's token");
  if (token.size() > kLongestToken)
    refuse(name + " holds more than " + std::to_string(kLongestToken) + " bytes", "tokens are shorter");
  return token;
}

}  // namespace

std::string read_store_token(const EnvironmentLookup& lookup) {
  const std::string path = text(lookup, "RECOLLECT_STORE_TOKEN_FILE");
  std::string token = text(lookup, "RECOLLECT_STORE_TOKEN");
  if (path.empty()) return token;
  std::string from_file = read_token_file(path);
  if (!token.empty() && token != from_file)
    refuse("RECOLLECT_STORE_TOKEN and RECOLLECT_STORE_TOKEN_FILE are different tokens",
           "set only one of them");
  return from_file;
}

StoreEnvironment find_store(const RankEnvironment& who, const EnvironmentLookup& lookup) {
  StoreEnvironment found;
  const std::string host = text(lookup, "RECOLLECT_STORE");
  if (!host.empty() && host != "launcher")
    refuse("RECOLLECT_STORE is '" + host + "'; it can only be 'launcher'",
           "unset it: rank 0 hosts the store");
  found.hosted_by_launcher = host == "launcher";
  found.place.host = text(lookup, "MASTER_ADDR");
  if (found.place.host.empty())
    refuse("MASTER_ADDR is not set: the ranks do not know where to meet", kPlaceHint);
  if (who.rank == 0 && who.local_size < who.size) refuse_hidden_host(found.place.host);
  const uint16_t port = read_port(lookup);
  const bool taken = !found.hosted_by_launcher && text(lookup, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  found.place.ports = taken ? candidate_ports(who.run_id, port) : std::vector{port};
  found.token = read_store_token(lookup);
  if (found.hosted_by_launcher) found.attempt = text(lookup, "TORCHELASTIC_RESTART_COUNT");
  return found;
}

StoreEnvironment find_store(const RankEnvironment& who) {
  return find_store(who, [](const char* name) -> const char* { return std::getenv(name); });
}

std::string make_store_token() {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string token;
  for (const unsigned char byte : tcp::make_nonce()) {
    token += kDigits[byte >> 4];
    token += kDigits[byte & 15];
  }
  return token;
}

void write_store_token(const std::string& path, const std::string& token) {
  const auto fail = [&] {
    throw Error(ExitCode::kStorage, "cannot write the token file " + path + ": " + tcp::error_text(errno));
  };
  const tcp::Socket file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) fail();
  const std::string line = token + "\n";
  if (::write(file.descriptor(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) fail();
}

}  // namespace recollect
