#include "comm/call_log.h"

#include <algorithm>
#include <cstring>

namespace recollect {

void CallLog::begin_step(int64_t step) {
  const std::lock_guard lock(mutex_);
  step_ = step;
}

int64_t CallLog::step() const {
  const std::lock_guard lock(mutex_);
  return step_;
}

uint64_t CallLog::begin(const CollectiveCall& call, std::span<const int> group, const char* op) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[calls_++ % kKept];
  entry = {.number = calls_,
           .call = call,
           .step = step_,
           .begun = now(),
           .group_size = static_cast<int32_t>(group.size())};
  std::copy_n(group.begin(), std::min(group.size(), kNamedRanks), entry.group.begin());
  if (op) std::copy_n(op, std::min(std::strlen(op), kOpBytes - 1), entry.op.begin());
  return calls_;
}

void CallLog::end(uint64_t number) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[(number - 1) % kKept];
  if (entry.number == number) entry.ended = now();  // else as many newer calls have overwritten it
}

std::vector<CallLog::Entry> CallLog::entries() const {
  const std::lock_guard lock(mutex_);
  const uint64_t kept = std::min<uint64_t>(calls_, kKept);
  std::vector<Entry> all;
  all.reserve(kept);
  for (uint64_t i = calls_ - kept; i < calls_; ++i) all.push_back(entries_[i % kKept]);
  return all;
}

}  // namespace recollect
