// The protocol of store and client after the handshake: frames of a four-byte length (little endian, like
// every number here) and that many bytes. A client sends one request and waits for its reply. Every length
// has a limit, which is checked before memory is reserved for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace recollect::store {

inline constexpr std::size_t kLongestKey = 256;
inline constexpr std::size_t kLongestValue = 1 << 20;
inline constexpr std::size_t kMostKeys = 4096;  // most keys in one wait()
inline constexpr std::size_t kLengthBytes = 4;
inline constexpr std::size_t kLongestRequest = kLongestValue + kLongestKey + 64;
inline constexpr std::size_t kLongestReply = kLongestValue + 64;
inline constexpr int kMostRanks = 1 << 16;

enum class Operation : uint8_t { kSet = 1, kGet, kAdd, kWait, kErase, kBarrier, kLeave };

struct Request {
  Operation operation = Operation::kGet;
  std::chrono::milliseconds timeout{0};  // get, wait, barrier
  std::vector<std::string> keys = {};    // one key, several only for wait; for a barrier its name
  std::string value = {};                // set
  int64_t number = 0;                    // add: the number to add; barrier: the number of ranks
};

// Returns the body of the frame.
std::string to_bytes(const Request& request);
// Returns nothing if the bytes are not exactly one request.
std::optional<Request> parse_request(std::string_view bytes);

enum class Status : uint8_t {
  kOk = 0,
  kLate,        // the text says what is missing
  kFull,        // the store has no room
  kNotANumber,  // add() to a value that is not a number
  kPeerGone,    // barrier: the text names the ranks
  kDisagree,    // barrier: the ranks expect different numbers of ranks
  kTwice,       // barrier: two processes are the same rank
  kOutOfRange,  // barrier: the group has no such rank
};

// The body of a reply is its status followed by a value or a text.
std::string length_prefix(std::size_t bytes);
std::size_t parse_length(const char* bytes);

// How a process identifies itself to a store: its rank, or -1 if it has none, and its run.
struct Identity {
  int rank = -1;
  std::string run_id = {};
};
inline constexpr std::size_t kLongestRunId = 256;
std::string to_bytes(const Identity& identity);
std::optional<Identity> parse_identity(std::string_view bytes);

}  // namespace recollect::store
