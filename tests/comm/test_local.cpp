// The collectives over shared memory are right to the bit, whatever the ranks are and however data is cut
// into chunks.
#include <gtest/gtest.h>

#include "comm/local.h"
#include "tests/comm/group_checks.h"
#include "tests/comm/ranks.h"

namespace recollect {
namespace {

using namespace test;

constexpr std::size_t kTinyChunk = 4096;  // several chunks already for a few thousand elements

class LocalRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Local, LocalRanks, ::testing::Values(1, 2, 3, 4, 7));

TEST_P(LocalRanks, ThreadsGetEveryCollectiveRight) {
  expect_fine(run_as_threads(
      GetParam(), [](Communicator& c) { check(c, kSizes); }, std::chrono::seconds(60), kTinyChunk));
}

TEST_P(LocalRanks, ProcessesGetEveryCollectiveRight) {
  expect_fine(run_as_processes(
      GetParam(), [](Communicator& c) { check(c, kSizes); }, std::chrono::seconds(60), kTinyChunk));
}

TEST_P(LocalRanks, ThreadsWithTheDefaultChunk) {
  expect_fine(run_as_threads(GetParam(), [](Communicator& c) {
    for (const std::string& failure : CollectiveChecker(c).run_large(300007)) ADD_FAILURE() << failure;
  }));
}

TEST_P(LocalRanks, KnowTheirPlace) {
  std::vector<int> seen(GetParam());
  expect_fine(run_as_threads(GetParam(), [&](Communicator& c) {
    seen[c.rank()] = c.size();
    EXPECT_EQ(c.name(), c.size() == 1 ? "self" : "local");
  }));
  for (const int size : seen) EXPECT_EQ(size, GetParam());
}

TEST_P(LocalRanks, ThreadsSplit) {
  expect_fine(run_as_threads(GetParam(), split_and_check, std::chrono::seconds(60), kTinyChunk));
}

TEST_P(LocalRanks, ProcessesSplit) {
  expect_fine(run_as_processes(GetParam(), split_and_check, std::chrono::seconds(60), kTinyChunk));
}

TEST_P(LocalRanks, TwoStreamsOfThreads) {
  expect_fine(run_as_threads(GetParam(), use_from_two_threads, std::chrono::seconds(60), kTinyChunk));
}

TEST_P(LocalRanks, TwoStreamsOfProcesses) {
  expect_fine(run_as_processes(GetParam(), use_from_two_threads, std::chrono::seconds(60), kTinyChunk));
}

TEST(Local, ChunkingDoesNotChangeBits) {
  std::vector<float> results[2];
  for (const int which : {0, 1}) {
    expect_fine(run_as_threads(
        3,
        [&](Communicator& c) {
          auto values = inputs<float>(Data::kRandom, c.rank(), 0, 50021);
          c.all_reduce({values.data(), {50021}, DType::kF32}, ReduceOp::kSum);
          if (c.rank() == 1) results[which] = values;
        },
        std::chrono::seconds(60), which == 0 ? kTinyChunk : kDefaultChunkBytes));
  }
  EXPECT_EQ(0, std::memcmp(results[0].data(), results[1].data(), results[0].size() * sizeof(float)));
}

TEST(Local, AMaximumWithANanIsANan) {
  expect_fine(run_as_threads(3, [](Communicator& c) {
    for (int bearer = 0; bearer < 3; ++bearer) {
      float value = c.rank() == bearer ? std::numeric_limits<float>::quiet_NaN() : 1.0f;
      c.all_reduce({&value, {1}, DType::kF32}, ReduceOp::kMax);
      EXPECT_TRUE(value != value);
    }
  }));
}

TEST(Local, TensorsThatDoNotFitAreErrors) {
  expect_fine(run_as_threads(2, [](Communicator& c) {
    float in[4] = {}, out[4] = {};
    EXPECT_THROW(c.all_gather({in, {3}, DType::kF32}, {out, {4}, DType::kF32}), Error);
    EXPECT_THROW(c.reduce_scatter({in, {3}, DType::kF32}, {out, {1}, DType::kF32}), Error);
    EXPECT_THROW(c.all_reduce({in, {2}, DType::kI32}, ReduceOp::kSum), Error);
    EXPECT_THROW(c.broadcast({in, {2}, DType::kF32}, 2), Error);
    c.barrier();  // nothing was sent, so the group still works
  }));
}

TEST(Local, MoreSplitsThanThereIsRoomForIsAnError) {
  for (const Outcome& outcome : run_as_threads(2, [](Communicator& c) {
         std::vector<std::unique_ptr<Communicator>> made;
         for (int i = 0; i < 1000; ++i) made.push_back(c.split(0));
       }))
    EXPECT_EQ(outcome.code, ExitCode::kHostMemory) << outcome.message;
}

}  // namespace
}  // namespace recollect
