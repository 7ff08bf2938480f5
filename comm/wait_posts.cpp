#include "comm/wait_posts.h"

#include <algorithm>

namespace recollect {
namespace {

constexpr int kKeptIntervals = 5;  // half the timeout
constexpr std::size_t kMostKept = 4096;

int32_t copy_ranks(const std::vector<int>& ranks, std::array<int32_t, WaitPost::kMostRanks>& to) {
  const std::size_t count = std::min(ranks.size(), to.size());
  std::copy_n(ranks.begin(), count, to.begin());
  return static_cast<int32_t>(count);
}

bool are_ranks(const std::array<int32_t, WaitPost::kMostRanks>& list, int32_t count, int ranks) {
  return count >= 0 && count <= static_cast<int32_t>(list.size()) &&
         std::all_of(list.begin(), list.begin() + count, [&](int32_t r) { return r >= 0 && r < ranks; });
}

}  // namespace

WaitPost post_of(const RankWait& wait, uint32_t slot) {
  WaitPost post{.rank = wait.rank, .slot = slot, .call = wait.call, .before = wait.before};
  post.group_size = copy_ranks(wait.group, post.group);
  post.missing_size = copy_ranks(wait.missing, post.missing);
  return post;
}

RankWait wait_of(const WaitPost& post) {
  return {.rank = post.rank,
          .call = post.call,
          .before = post.before,
          .group = {post.group.begin(), post.group.begin() + post.group_size},
          .missing = {post.missing.begin(), post.missing.begin() + post.missing_size}};
}

void WaitPosts::note(const WaitPost& post) {
  if (post.rank < 0 || post.rank >= ranks_ || !are_ranks(post.group, post.group_size, ranks_) ||
      !are_ranks(post.missing, post.missing_size, ranks_))
    return;
  const std::lock_guard lock(mutex_);
  const std::pair key{post.rank, post.slot};
  if (noted_.size() < kMostKept || noted_.contains(key)) noted_[key] = {post, Clock::now()};
}

std::vector<RankWait> WaitPosts::current() const {
  const auto since = Clock::now() - kKeptIntervals * interval_;
  std::vector<RankWait> waits;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, noted] : noted_)
    if (noted.post.gave_up != 0 || noted.when >= since) waits.push_back(wait_of(noted.post));
  return waits;
}

}  // namespace recollect
