#include "comm/store/protocol.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace recollect::store {
namespace {

constexpr std::string_view kStoreWord = "store ";

template <typename T>
void put(std::string& bytes, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i)
    bytes += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i) & 255);
}

void put_key(std::string& bytes, const std::string& key) {
  put(bytes, static_cast<uint16_t>(key.size()));
  bytes += key;
}

// Takes values from the front. After the first value that is missing, everything counts as missing.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  bool is_whole() const { return !broken_ && left_.empty(); }
  bool has_more() const { return !broken_ && !left_.empty(); }

  std::string take(std::size_t bytes) {
    if (broken_ || bytes > left_.size()) {
      broken_ = true;
      return {};
    }
    std::string taken(left_.substr(0, bytes));
    left_.remove_prefix(bytes);
    return taken;
  }
  template <typename T>
  T number() {
    const std::string bytes = take(sizeof(T));
    uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    return static_cast<T>(value);
  }
  std::string key() {
    const std::size_t length = number<uint16_t>();
    if (length > kLongestKey) broken_ = true;
    return take(length);
  }
  std::string rest() { return take(left_.size()); }

 private:
  std::string_view left_;
  bool broken_ = false;
};

}  // namespace

std::string to_bytes(const Request& request) {
  std::string bytes;
  put(bytes, static_cast<uint8_t>(request.operation));
  put(bytes, static_cast<uint32_t>(std::clamp<int64_t>(request.timeout.count(), 0, UINT32_MAX)));
  for (const std::string& key : request.keys) put_key(bytes, key);
  if (request.operation == Operation::kSet) bytes += request.value;
  if (request.operation == Operation::kAdd || request.operation == Operation::kBarrier)
    put(bytes, request.number);
  return bytes;
}

std::optional<Request> parse_request(std::string_view bytes) {
  Reader reader(bytes);
  Request request;
  request.operation = static_cast<Operation>(reader.number<uint8_t>());
  request.timeout = std::chrono::milliseconds(reader.number<uint32_t>());
  switch (request.operation) {
    case Operation::kLeave:
      break;
    case Operation::kWait:
      while (reader.has_more() && request.keys.size() < kMostKeys) request.keys.push_back(reader.key());
      break;
    case Operation::kSet:
      request.keys.push_back(reader.key());
      request.value = reader.rest();
      break;
    case Operation::kGet:
    case Operation::kErase:
      request.keys.push_back(reader.key());
      break;
    case Operation::kAdd:
    case Operation::kBarrier:
      request.keys.push_back(reader.key());
      request.number = reader.number<int64_t>();
      break;
    default:
      return std::nullopt;
  }
  if (!reader.is_whole() || request.value.size() > kLongestValue) return std::nullopt;
  return request;
}

std::string length_prefix(std::size_t bytes) {
  std::string prefix;
  put(prefix, static_cast<uint32_t>(bytes));
  return prefix;
}

std::size_t parse_length(const char* bytes) {
  return Reader(std::string_view(bytes, kLengthBytes)).number<uint32_t>();
}

std::string to_bytes(const Identity& identity) {
  return std::string(kStoreWord) + std::to_string(identity.rank) + " " + identity.run_id;
}

std::optional<Identity> parse_identity(std::string_view bytes) {
  if (!bytes.starts_with(kStoreWord)) return std::nullopt;
  bytes.remove_prefix(kStoreWord.size());
  const std::size_t space = bytes.find(' ');
  if (space == std::string_view::npos || bytes.size() - space - 1 > kLongestRunId) return std::nullopt;
  Identity identity{.rank = -1, .run_id = std::string(bytes.substr(space + 1))};
  const auto [end, error] = std::from_chars(bytes.data(), bytes.data() + space, identity.rank);
  if (error != std::errc() || end != bytes.data() + space) return std::nullopt;
  if (identity.rank < -1 || identity.rank >= kMostRanks) return std::nullopt;
  return identity;
}

}  // namespace recollect::store
