// The fused attention's pieces cover everything once and stay within their bound; the seeds of their dropout
// masks differ.
#include "engine/ops/cuda/attention_chunks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "engine/ops/cuda/cudnn_seeds.h"

namespace recollect::cuda {
namespace {

std::vector<AttentionChunk> chunks_of(int64_t samples, int64_t heads, int64_t length, int64_t group = 1) {
  return attention_chunks(samples, heads, group, attention_unit_bytes(length, 64, group));
}

TEST(AttentionChunks, CoverEverythingOnceWithinTheBound) {
  for (int64_t samples : {1, 2, 3, 7, 16, 64, 333})
    for (int64_t heads : {1, 2, 12, 25, 40})
      for (int64_t length : {2, 70, 128, 512, 1000, 1024, 8192, 40000}) {
        std::vector<int> times(samples * heads);
        const auto chunks = chunks_of(samples, heads, length);
        ASSERT_FALSE(chunks.empty());
        for (const AttentionChunk& c : chunks) {
          EXPECT_TRUE(c.heads == heads || c.samples == 1);
          const int64_t units = c.samples * c.heads;
          EXPECT_LE(units, chunks.front().samples * chunks.front().heads);
          EXPECT_TRUE(units == 1 || units * attention_unit_bytes(length) <= kAttentionChunkBytes);
          for (int64_t s = 0; s < c.samples; ++s)
            for (int64_t h = 0; h < c.heads; ++h) ++times.at((c.first_sample + s) * heads + c.first_head + h);
        }
        EXPECT_EQ(std::count(times.begin(), times.end(), 1), samples * heads);
      }
}

TEST(AttentionChunks, AreFewAndAlike) {
  // GPT-2 124M and 1.5B: whole samples, evenly.
  const auto small = chunks_of(64, 12, 1024);
  ASSERT_EQ(small.size(), 4u);
  for (const AttentionChunk& c : small) EXPECT_EQ(c.samples, 16);
  const auto large = chunks_of(16, 25, 1024);
  ASSERT_EQ(large.size(), 2u);
  EXPECT_EQ(large[0], (AttentionChunk{0, 8, 0, 25}));
  EXPECT_EQ(large[1], (AttentionChunk{8, 8, 0, 25}));
  // What fits is not cut; one sample that does not is cut by heads.
  EXPECT_EQ(chunks_of(8, 12, 512).size(), 1u);
  EXPECT_EQ(chunks_of(2, 12, 8192).size(), 8u);
  EXPECT_EQ(chunks_of(1, 4, 40000).size(), 4u);
}

// A key/value head's gradient is made by one piece.
TEST(AttentionChunks, HoldWholeGroups) {
  for (const int64_t group : {2, 4, 8})
    for (int64_t samples : {1, 3, 16})
      for (int64_t groups : {1, 3, 4})
        for (int64_t length : {70, 1024, 8192, 40000}) {
          const int64_t heads = groups * group;
          int64_t units = 0;
          for (const AttentionChunk& c : chunks_of(samples, heads, length, group)) {
            EXPECT_EQ(c.first_head % group, 0);
            EXPECT_EQ(c.heads % group, 0);
            EXPECT_TRUE(c.heads == heads || c.samples == 1);
            units += c.samples * c.heads;
            EXPECT_TRUE(c.samples * c.heads == group ||
                        c.samples * c.heads * attention_unit_bytes(length, 64, group) <=
                            kAttentionChunkBytes);
          }
          EXPECT_EQ(units, samples * heads);
        }
  EXPECT_EQ(chunks_of(1, 32, 8192, 4).size(), 8u);
}

// What cuDNN 9.19 and 9.26 ask for on Hopper, read off their plans for an H200
// (tests/gpu/test_libraries.cpp).
TEST(AttentionChunks, RoomIsPredicted) {
  const std::vector<std::array<int64_t, 4>> asked = {
      {16, 12, 1024, 403439872}, {5, 25, 1024, 262656256}, {4, 12, 1000, 100855552}, {2, 4, 96, 265472},
      {1, 2, 8192, 268501248},   {2, 3, 70, 198544},       {2, 16, 512, 16843008},   {1, 1, 8, 16672}};
  for (const auto& [samples, heads, length, bytes] : asked) {
    const std::size_t predicted = samples * heads * attention_unit_bytes(length) + kAttentionOtherBytes;
    EXPECT_GE(predicted, static_cast<std::size_t>(bytes));
    EXPECT_LE(predicted, static_cast<std::size_t>(2 * bytes) + kAttentionOtherBytes);
  }
}

// What cuDNN 9.26 asks for where it adds up in the order of keys, read off in the same way.
TEST(AttentionChunks, RoomInOrderIsPredicted) {
  const std::vector<std::array<int64_t, 6>> asked = {
      {16, 12, 1, 1024, 64, 51142912}, {1, 2, 1, 8192, 128, 8456448}, {1, 1, 1, 32768, 128, 16912640},
      {4, 16, 1, 512, 64, 8524032},    {1, 8, 4, 1000, 80, 5153280},  {1, 8, 4, 4096, 128, 33689856},
      {2, 4, 4, 2048, 128, 16845056},  {2, 3, 1, 70, 40, 69264}};
  for (const auto& [samples, heads, group, length, head_size, bytes] : asked) {
    const std::size_t predicted =
        samples * heads * attention_unit_bytes(length, head_size, group, true) + kAttentionOtherBytes;
    EXPECT_GE(predicted, static_cast<std::size_t>(bytes));
    EXPECT_LE(predicted, static_cast<std::size_t>(2 * bytes) + kAttentionOtherBytes);
  }
}

TEST(AttentionSeeds, DifferAndRepeat) {
  std::set<uint64_t> seeds;
  std::size_t made = 0;
  for (uint64_t seed : {0, 1, 42})
    for (int64_t step : {0, 1, 2})
      for (int64_t first_sample : {0, 8, 16})
        for (int64_t layer : {0, 1, 11})
          for (int64_t site : {0, 1})
            for (int64_t head : {0, 6})
              for (int64_t chunk : {0, 1, 2}) {
                RunState state;
                state.seed = seed;
                state.step = step;
                state.first_sample = first_sample;
                const AttentionSite at{.layer = layer, .site = site, .first_head = head};
                const uint64_t word = attention_seed(state, at, chunk);
                EXPECT_EQ(word, attention_seed(state, at, chunk));
                EXPECT_LT(word, uint64_t{1} << 63);
                seeds.insert(word);
                ++made;
              }
  EXPECT_EQ(seeds.size(), made);
}

}  // namespace
}  // namespace recollect::cuda
