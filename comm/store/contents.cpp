#include "comm/store/contents.h"

#include <charconv>

#include "comm/collective_call.h"

namespace recollect::store {
namespace {

constexpr std::size_t kOverhead = 128;  // bytes per entry, approximately: even an empty value costs memory
constexpr std::size_t kMostNames = 16;  // ranks named in one message

Reply text_reply(Status status, std::string text) {
  return {status, std::make_shared<const std::string>(std::move(text))};
}

std::string name_some(std::vector<int> ranks) {
  const std::size_t all = ranks.size();
  if (all > kMostNames) ranks.resize(kMostNames);
  return name_ranks(ranks) +
         (all > kMostNames ? " and " + std::to_string(all - kMostNames) + " more" : std::string());
}

std::optional<int64_t> to_number(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Status Contents::set(const std::string& key, std::string value) {
  const auto found = values_.find(key);
  const std::size_t before = found == values_.end() ? 0 : found->second->size();
  const std::size_t entry = found == values_.end() ? key.size() + kOverhead : 0;
  if (value.size() + entry > before && !has_room(value.size() + entry - before)) return Status::kFull;
  bytes_ += value.size() + entry - before;
  values_[key] = std::make_shared<const std::string>(std::move(value));
  return Status::kOk;
}

Value Contents::get(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : found->second;
}

Reply Contents::add(const std::string& key, int64_t delta) {
  const Value before = get(key);
  const std::optional<int64_t> number = before ? to_number(*before) : 0;
  int64_t sum = 0;
  if (!number || __builtin_add_overflow(*number, delta, &sum)) return {Status::kNotANumber, before};
  const Status status = set(key, std::to_string(sum));
  return {status, status == Status::kOk ? get(key) : nullptr};
}

void Contents::erase(const std::string& key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return;
  bytes_ -= key.size() + found->second->size() + kOverhead;
  values_.erase(found);
}

std::vector<std::string> Contents::missing(const std::vector<std::string>& keys) const {
  std::vector<std::string> absent;
  for (const std::string& key : keys)
    if (!values_.contains(key)) absent.push_back(key);
  return absent;
}

Contents::Arrival Contents::arrive(const std::string& name, int64_t size, int rank, uint64_t here_since) {
  if (rank < 0 || rank >= size || size > kMostRanks)
    return {text_reply(Status::kOutOfRange, "rank " + std::to_string(rank) + " comes to a barrier of " +
                                                std::to_string(size) + " ranks")};
  if (!barriers_.contains(name)) {
    if (!has_room(name.size() + kOverhead)) return {{Status::kFull, nullptr}};
    bytes_ += name.size() + kOverhead;
  }
  Barrier& barrier = barriers_[name];
  if (barrier.broken) return {*barrier.broken};
  if (!barrier.waiting.empty() && barrier.size != size) {
    const std::string text = name_some({barrier.waiting.begin(), barrier.waiting.end()}) + " expect" +
                             (barrier.waiting.size() == 1 ? "s " : " ") + std::to_string(barrier.size) +
                             " ranks, rank " + std::to_string(rank) + " expects " + std::to_string(size);
    barrier.broken = text_reply(Status::kDisagree, text);
    return {*barrier.broken};
  }
  barrier.size = size;
  if (!barrier.waiting.insert(rank).second)
    return {text_reply(Status::kTwice, "two processes are rank " + std::to_string(rank))};
  const uint64_t turn = barrier.turn;
  if (static_cast<int64_t>(barrier.waiting.size()) == size) {
    barrier.waiting.clear();
    ++barrier.turn;
  } else {
    break_if_gone(barrier, here_since);
  }
  return {{}, turn};
}

std::optional<Reply> Contents::barrier_reply(const std::string& name, uint64_t turn) const {
  const Barrier& barrier = barriers_.at(name);
  if (barrier.turn != turn) return Reply{};
  return barrier.broken;
}

void Contents::give_up_barrier(const std::string& name) {
  Barrier& barrier = barriers_.at(name);
  if (!barrier.broken) barrier.broken = text_reply(Status::kLate, name_some(missing_from(barrier)));
}

uint64_t Contents::rank_is_here(int rank) {
  gone_.erase(rank);
  return departures_;
}

void Contents::rank_has_gone(int rank) {
  if (rank < 0) return;
  const uint64_t before = departures_++;
  gone_[rank] = departures_;
  for (auto& [name, barrier] : barriers_)
    if (!barrier.waiting.empty()) break_if_gone(barrier, before);
}

// A rank that had already come and has gone again cannot take part either.
void Contents::break_if_gone(Barrier& barrier, uint64_t since) const {
  if (barrier.broken) return;
  std::vector<int> gone;
  for (const auto& [rank, when] : gone_)
    if (rank < barrier.size && when > since) gone.push_back(rank);
  if (!gone.empty()) barrier.broken = text_reply(Status::kPeerGone, name_some(gone));
}

std::vector<int> Contents::missing_from(const Barrier& barrier) const {
  std::vector<int> missing;
  for (int rank = 0; rank < barrier.size; ++rank)
    if (!barrier.waiting.contains(rank)) missing.push_back(rank);
  return missing;
}

}  // namespace recollect::store
