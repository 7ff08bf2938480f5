// The log of a rank's calls: the latest ones, on all of its communicators, with the ops that made them.
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "comm/call_log.h"
#include "tests/comm/ranks.h"

namespace recollect::test::call_log_test {
namespace {

using namespace std::chrono_literals;

TEST(CallLog, KeepsTheLatest) {
  CallLog log;
  const int group[] = {3, 5};
  const std::string long_name(300, 'x');
  for (uint64_t i = 1; i <= 1000; ++i) {
    log.begin_step(static_cast<int64_t>(i / 10));
    const uint64_t number = log.begin({.sequence = i, .bytes = 8 * i, .kind = CollectiveKind::kAllReduce},
                                      group, long_name.c_str());
    EXPECT_EQ(number, i);
    if (i != 999) log.end(number);
  }
  log.end(1);  // long forgotten
  const auto entries = log.entries();
  ASSERT_EQ(entries.size(), CallLog::kKept);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const CallLog::Entry& entry = entries[i];
    EXPECT_EQ(entry.number, 1000 - CallLog::kKept + 1 + i);
    EXPECT_EQ(entry.call.sequence, entry.number);
    EXPECT_EQ(entry.call.bytes, 8 * entry.number);
    EXPECT_EQ(entry.step, static_cast<int64_t>(entry.number / 10));
    EXPECT_EQ(entry.ended < 0, entry.number == 999);
    EXPECT_EQ(entry.group_size, 2);
    EXPECT_EQ(entry.group[0], 3);
    EXPECT_EQ(entry.group[1], 5);
    EXPECT_EQ(std::string(entry.op.data()), long_name.substr(0, CallLog::kOpBytes - 1));
  }
}

using Runner = std::vector<Outcome> (*)(int, const RankFunction&, std::chrono::milliseconds, std::size_t);

class Logged : public ::testing::TestWithParam<Runner> {};

INSTANTIATE_TEST_SUITE_P(Over, Logged, ::testing::Values(run_as_threads, run_over_tcp_as_threads),
                         [](const auto& info) { return info.index == 0 ? "Local" : "Tcp"; });

// Four ranks, in pairs. Rank 3 stays away from its pair's second sum.
TEST_P(Logged, CallsOfAGroupAndTheOneThatFailed) {
  const auto outcomes = GetParam()(
      4,
      [](Communicator& world) {
        const auto log = std::make_shared<CallLog>();
        world.note_calls_in(log);
        world.barrier();
        const auto pair = world.split(world.rank() / 2);
        float values[3] = {1, 2, 3};
        pair->name_op("layer0/mlp/fc2");
        pair->all_reduce({values, {3}, DType::kF32}, ReduceOp::kSum);
        pair->name_op(nullptr);
        pair->exchange({values, {1}, DType::kF32}, 1 - pair->rank(), {values + 1, {1}, DType::kF32},
                       1 - pair->rank());
        const auto text = [](const CallLog::Entry& e) {
          return e.call.name() + " " + e.op.data() + (e.ended < e.begun ? " open" : "");
        };
        const std::string other = std::to_string(world.rank() ^ 1);
        auto entries = log->entries();
        ASSERT_EQ(entries.size(), 4u);
        EXPECT_EQ(text(entries[0]), "barrier #1 ");
        EXPECT_EQ(entries[0].group_size, 4);
        EXPECT_EQ(text(entries[1]), "all_reduce #1 layer0/mlp/fc2");
        EXPECT_EQ(entries[1].call.bytes, 12u);
        EXPECT_EQ(entries[1].group[1], world.rank() / 2 * 2 + 1);
        EXPECT_EQ(text(entries[2]), "send #1 to rank " + other + " ");
        EXPECT_EQ(text(entries[3]), "receive #1 from rank " + other + " ");
        if (world.rank() == 3) std::this_thread::sleep_for(900ms);
        pair->name_op("layer1/mlp/fc2");
        try {
          pair->all_reduce({values, {3}, DType::kF32}, ReduceOp::kSum);
          if (world.rank() < 2) std::this_thread::sleep_for(900ms);
        } catch (const Error&) {
          const std::string last = text(log->entries().back());
          if (world.rank() == 2) {
            EXPECT_EQ(last, "all_reduce #2 layer1/mlp/fc2 open");
          }
          throw;
        }
      },
      300ms, kDefaultChunkBytes);
  EXPECT_EQ(outcomes[2].code, ExitCode::kPeerLost);
  EXPECT_NE(outcomes[2].message.find(
                "all_reduce #2 of rank 2 (layer1/mlp/fc2): rank 3 did not come within 300 ms; last seen "
                "there in all_reduce #1"),
            std::string::npos)
      << outcomes[2].message;
}

}  // namespace
}  // namespace recollect::test::call_log_test
