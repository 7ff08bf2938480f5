// Who is to blame where many wait: the ranks that wait for nobody, whatever group they keep waiting.
#include "comm/wait_graph.h"

#include <gtest/gtest.h>

#include <thread>

#include "comm/wait_posts.h"

namespace recollect {
namespace {

using namespace std::chrono_literals;

CollectiveCall sum(uint64_t sequence) { return {.sequence = sequence, .kind = CollectiveKind::kAllReduce}; }

RankWait wait(int rank, std::vector<int> group, std::vector<int> missing, uint64_t sequence = 18) {
  return {rank, sum(sequence), sequence > 1 ? sum(sequence - 1) : CollectiveCall{}, std::move(group),
          std::move(missing)};
}

TEST(WaitGraph, WhoWaitsForNobodyIsNamedFromWhereverOneLooks) {
  const RankWait near = wait(2, {2, 3}, {3}), far = wait(0, {0, 2}, {2}, 5), side = wait(1, {1, 3}, {3}, 5);
  const std::vector<RankWait> all{near, far, side};
  EXPECT_EQ(who_is_late(near, all, 2000ms),
            "rank 3 did not come within 2 s; last seen there in all_reduce #17; rank 0 waits for rank 2; "
            "rank 1 waits for rank 3");
  EXPECT_EQ(who_is_late(far, all, 2000ms),
            "rank 3 did not come within 2 s to all_reduce #18 among ranks 2, 3; last seen there in "
            "all_reduce #17; ranks 1, 2 wait for rank 3");
}

TEST(WaitGraph, WithoutNewsOfOthersThoseWhoAreMissing) {
  EXPECT_EQ(who_is_late(wait(0, {0, 1, 2}, {1, 2}, 1), {}, 300ms),
            "ranks 1, 2 did not come within 300 ms; not seen there before");
}

TEST(WaitGraph, SeveralAreNamedWhereverTheyAreMissed) {
  const RankWait mine = wait(0, {0, 1, 2}, {1, 2}), other = wait(2, {2, 5}, {5}, 3);
  EXPECT_EQ(who_is_late(mine, std::vector{mine, other}, 1s),
            "rank 1 did not come within 1 s; last seen there in all_reduce #17; rank 5 did not come within "
            "1 s to all_reduce #3 among ranks 2, 5; last seen there in all_reduce #2; rank 2 waits for "
            "rank 5");
}

// A rank of which one thread computes for ever and another waits for somebody who waits for the rank.
TEST(WaitGraph, NewsThatGoInACircleBlameWhoIsMissingHere) {
  const RankWait mine = wait(0, {0, 1}, {1}), back = wait(1, {1, 2}, {2}), round = wait(2, {2, 0}, {0});
  EXPECT_EQ(who_is_late(mine, std::vector{back, round}, 1s).substr(0, 31), "rank 1 did not come within 1 s;");
}

TEST(WaitPosts, AreTheLatestOfEachAndSoonForgotten) {
  WaitPosts posts(4, 500ms);
  EXPECT_EQ(posts.interval(), 50ms);
  posts.note(post_of(wait(2, {2, 3}, {3}), 7));
  posts.note(post_of(wait(2, {0, 2}, {0}, 4), 7));
  posts.note(post_of(wait(2, {2, 3}, {3}), 8));
  ASSERT_EQ(posts.current().size(), 2u);
  EXPECT_EQ(posts.current()[0].call, sum(4));
  EXPECT_EQ(posts.current()[0].missing, std::vector{0});
  std::this_thread::sleep_for(260ms);
  EXPECT_TRUE(posts.current().empty());
}

// Who waits for that rank gives up a little later, and is to name whom it waited for.
TEST(WaitPosts, OfWhoGaveUpAreNotForgotten) {
  WaitPosts posts(4, 100ms);
  WaitPost last = post_of(wait(2, {2, 3}, {3}), 7);
  last.gave_up = 1;
  posts.note(last);
  posts.note(post_of(wait(1, {1, 3}, {3}), 7));
  std::this_thread::sleep_for(60ms);
  ASSERT_EQ(posts.current().size(), 1u);
  EXPECT_EQ(posts.current()[0].rank, 2);
}

TEST(WaitPosts, WhatNoRankCanHaveSaidIsNotHeard) {
  WaitPosts posts(4, 10s);
  for (const auto& spoil :
       {+[](WaitPost& p) { p.rank = 4; }, +[](WaitPost& p) { p.rank = -1; },
        +[](WaitPost& p) { p.missing_size = 33; }, +[](WaitPost& p) { p.group_size = -1; },
        +[](WaitPost& p) { p.missing[0] = 9; }}) {
    WaitPost post = post_of(wait(2, {2, 3}, {3}), 1);
    spoil(post);
    posts.note(post);
  }
  EXPECT_TRUE(posts.current().empty());
}

// More ranks than a post holds: some of those missing are as good as all.
TEST(WaitPosts, OfManyRanksSome) {
  std::vector<int> many;
  for (int r = 0; r < 100; ++r) many.push_back(r);
  const RankWait back = wait_of(post_of(wait(100, many, many), 0));
  EXPECT_EQ(back.missing.size(), WaitPost::kMostRanks);
  EXPECT_EQ(back.rank, 100);
}

}  // namespace
}  // namespace recollect
