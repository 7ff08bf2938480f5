// The collectives over shared memory are right to the bit, whatever the ranks are and however data is cut
// into chunks.
#include <gtest/gtest.h>

#include <thread>

#include "comm/local.h"
#include "tests/comm/check_collectives.h"
#include "tests/comm/ranks.h"

namespace recollect {
namespace {

using namespace test;

constexpr std::size_t kTinyChunk = 4096;  // several chunks already for a few thousand elements
const std::vector<int64_t> kSizes{0, 1, 2, 7, 61, 1021, 4096, 10007};

void check(Communicator& communicator, const std::vector<int64_t>& sizes) {
  std::string text;
  for (const std::string& failure : CollectiveChecker(communicator).run(sizes)) text += failure + "\n";
  if (!text.empty()) throw Error(ExitCode::kIntegrity, text);
}

class Ranks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Local, Ranks, ::testing::Values(1, 2, 3, 4, 7));

TEST_P(Ranks, ThreadsGetEveryCollectiveRight) {
  expect_fine(run_as_threads(
      GetParam(), [](Communicator& c) { check(c, kSizes); }, std::chrono::seconds(60), kTinyChunk));
}

TEST_P(Ranks, ProcessesGetEveryCollectiveRight) {
  expect_fine(run_as_processes(
      GetParam(), [](Communicator& c) { check(c, kSizes); }, std::chrono::seconds(60), kTinyChunk));
}

TEST_P(Ranks, ThreadsWithTheDefaultChunk) {
  expect_fine(run_as_threads(GetParam(), [](Communicator& c) {
    for (const std::string& failure : CollectiveChecker(c).run_large(300007)) ADD_FAILURE() << failure;
  }));
}

TEST_P(Ranks, KnowTheirPlace) {
  std::vector<int> seen(GetParam());
  expect_fine(run_as_threads(GetParam(), [&](Communicator& c) {
    seen[c.rank()] = c.size();
    EXPECT_EQ(c.name(), c.size() == 1 ? "self" : "local");
  }));
  for (const int size : seen) EXPECT_EQ(size, GetParam());
}

// A mesh of 2 x 2 or 3 x 2 or a single row, and groups of those groups.
void split_and_check(Communicator& c) {
  const auto rows = c.split(c.rank() / 2);
  const auto columns = c.split(c.rank() % 2);
  const int in_row = c.rank() / 2 * 2 + 1 < c.size() ? 2 : 1;
  EXPECT_EQ(rows->size(), in_row);
  EXPECT_EQ(rows->rank(), c.rank() % 2);
  EXPECT_EQ(columns->size(), (c.size() + 1 - c.rank() % 2) / 2);
  EXPECT_EQ(columns->rank(), c.rank() / 2);
  check(*rows, {1, 1021});
  check(*columns, {1, 1021});
  const auto again = columns->split(columns->rank() == 0 ? -5 : 5);
  EXPECT_EQ(again->size(), columns->rank() == 0 ? 1 : columns->size() - 1);
  check(*again, {1, 1021});
  check(c, {61});
}

TEST_P(Ranks, ThreadsSplit) {
  expect_fine(run_as_threads(GetParam(), split_and_check, std::chrono::seconds(60), kTinyChunk));
}

TEST_P(Ranks, ProcessesSplit) {
  expect_fine(run_as_processes(GetParam(), split_and_check, std::chrono::seconds(60), kTinyChunk));
}

// As the executor does: one communicator for the compute stream, one for the communication stream.
void use_from_two_threads(Communicator& c) {
  const auto other = c.split(0);
  Outcome outcome;
  std::jthread stream([&] {
    try {
      check(*other, {7, 5003, 1021});
    } catch (const Error& error) {
      outcome = {error.code(), error.what()};
    }
  });
  check(c, {5003, 7, 1021, 61});
  stream.join();
  if (outcome.code != ExitCode::kOk) throw Error(outcome.code, outcome.message);
}

TEST_P(Ranks, TwoStreamsOfThreads) {
  expect_fine(run_as_threads(GetParam(), use_from_two_threads, std::chrono::seconds(60), kTinyChunk));
}

TEST_P(Ranks, TwoStreamsOfProcesses) {
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
    EXPECT_THROW(c.all_reduce({in, {2}, DType::kF16}, ReduceOp::kSum), Error);
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
