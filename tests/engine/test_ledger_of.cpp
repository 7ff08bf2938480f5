// The ledger of blocks as a run found them: whoever takes a block's storage over counts once with it, any
// other overlap is found, and a deep model's blocks take no longer than in proportion.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <optional>
#include <random>
#include <vector>

#include "engine/core/error.h"
#include "engine/runtime/lifetime.h"

namespace recollect {
namespace {

Block block(int64_t begin, int64_t end, uint64_t offset, uint64_t bytes = 64) {
  return {.bytes = bytes, .begin = begin, .end = end, .offset = offset, .pooled = true};
}

// The most bytes that are held at once; nothing where an overlap was found.
std::optional<uint64_t> most_at_once(const std::vector<Block>& blocks) {
  try {
    return ledger_of(Graph(), blocks, {}).pooled_peak;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kInternal);
    return std::nullopt;
  }
}

// The same, by comparing each block with all before it.
std::optional<uint64_t> most_by_all_pairs(std::vector<Block> blocks) {
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) { return a.begin < b.begin; });
  std::vector<Block> merged;
  for (const Block& b : blocks) {
    Block* before = nullptr;
    for (Block& a : merged) {
      if (!a.overlaps_in_time(b) || a.offset >= b.offset + b.bytes || b.offset >= a.offset + a.bytes)
        continue;
      if (a.offset != b.offset || a.bytes != b.bytes || a.end != b.begin) return std::nullopt;
      before = &a;
    }
    before ? void(before->end = b.end) : merged.push_back(b);
  }
  uint64_t most = 0;
  for (const Block& a : merged) {  // a peak is reached where something begins
    uint64_t now = 0;
    for (const Block& b : merged) now += b.begin <= a.begin && a.begin <= b.end ? b.bytes : 0;
    most = std::max(most, now);
  }
  return most;
}

TEST(LedgerOf, WhatIsTakenOverCountsOnce) {
  EXPECT_EQ(most_at_once({block(0, 10, 0), block(10, 20, 0), block(20, 30, 0)}), 64u);
  EXPECT_EQ(most_at_once({block(0, 10, 0), block(10, 20, 64)}), 128u);
  EXPECT_EQ(most_at_once({block(0, 10, 0), block(11, 20, 32)}), 64u);
}

TEST(LedgerOf, AnyOtherOverlapIsAnError) {
  EXPECT_EQ(most_at_once({block(0, 10, 0), block(9, 20, 0)}), std::nullopt);
  EXPECT_EQ(most_at_once({block(0, 10, 0), block(10, 20, 32)}), std::nullopt);
  EXPECT_EQ(most_at_once({block(0, 10, 0), block(10, 20, 0, 128)}), std::nullopt);
  EXPECT_EQ(most_at_once({block(0, 10, 128), block(5, 20, 0, 256)}), std::nullopt) << "all around it";
  EXPECT_EQ(most_at_once({block(0, 10, 0, 256), block(5, 20, 64)}), std::nullopt) << "inside of it";
  EXPECT_EQ(most_at_once({block(0, 10, 0), block(10, 20, 0), block(15, 30, 0)}), std::nullopt)
      << "with what was taken over";
}

TEST(LedgerOf, FindsWhatComparingAllPairsFinds) {
  std::mt19937 random(3);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<Block> blocks;
    for (uint64_t place = 0; place < 6; ++place)
      for (int64_t tick = random() % 4; tick < 40;) {
        const int64_t end = tick + 1 + random() % 8;
        blocks.push_back(block(tick, end, 64 * place));
        if (random() % 200 == 0) blocks.back().offset += 32;
        tick = end + random() % 4 - (random() % 200 == 0 ? 1 : 0);
      }
    std::shuffle(blocks.begin(), blocks.end(), random);
    const auto expected = most_by_all_pairs(blocks);
    ASSERT_EQ(most_at_once(blocks), expected) << "round " << round;
    refused += expected ? 0 : 1;
  }
  EXPECT_GT(refused, 200);
  EXPECT_LT(refused, 1800);
}

// Those of some thousand layers: all pairs would take a minute.
TEST(LedgerOf, ManyBlocksTakeSeconds) {
  std::vector<Block> blocks;
  constexpr int64_t kBlocks = 200000;
  for (int64_t i = 0; i < kBlocks; ++i)  // half of them wait for backward
    blocks.push_back(i % 2 ? block(i, i + 1, 64 * i) : block(i, 2 * kBlocks - i, 64 * i));
  const std::clock_t start = std::clock();
  EXPECT_EQ(most_at_once(blocks), 64u * (kBlocks / 2 + 1));
  EXPECT_LT(std::clock() - start, 10 * CLOCKS_PER_SEC);
}

}  // namespace
}  // namespace recollect
