// The collectives over TCP are right to the bit, in groups of groups and from two threads at once; and the
// ranks of a run find each other, and nobody else.
#include "comm/tcp.h"

#include <gtest/gtest.h>

#include "comm/message_communicator.h"
#include "comm/store/server.h"
#include "engine/io/node.h"
#include "tests/comm/group_checks.h"

namespace recollect {
namespace {

using namespace test;
using namespace std::chrono_literals;

class TcpRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Tcp, TcpRanks, ::testing::Values(1, 2, 3, 4, 6));

TEST_P(TcpRanks, ThreadsGetEveryCollectiveRight) {
  expect_fine(run_over_tcp_as_threads(GetParam(), [](Communicator& c) { check(c, kSizes); }));
}

TEST_P(TcpRanks, ProcessesGetEveryCollectiveRight) {
  expect_fine(run_over_tcp_as_processes(GetParam(), [](Communicator& c) { check(c, kSizes); }));
}

TEST_P(TcpRanks, KnowTheirPlaceAndPredictTheirMemory) {
  std::vector<int> seen(GetParam());
  expect_fine(run_over_tcp_as_threads(GetParam(), [&](Communicator& c) {
    seen[c.rank()] = c.size();
    EXPECT_EQ(c.name(), c.size() == 1 ? "self" : "tcp");
    EXPECT_EQ(c.staging_bytes(), message_staging_bytes(c.size()));
  }));
  for (const int size : seen) EXPECT_EQ(size, GetParam());
}

TEST_P(TcpRanks, Split) {
  expect_fine(run_over_tcp_as_threads(GetParam(), split_and_check));
  expect_fine(run_over_tcp_as_processes(GetParam(), split_and_check));
}

TEST_P(TcpRanks, TwoStreams) {
  expect_fine(run_over_tcp_as_threads(GetParam(), use_from_two_threads));
  expect_fine(run_over_tcp_as_processes(GetParam(), use_from_two_threads));
}

// More than staging memory and the sockets' own buffers hold: everybody sends while everybody receives.
TEST(Tcp, LargeTensorsInManyPieces) {
  for (const int ranks : {2, 3})
    expect_fine(run_over_tcp_as_threads(ranks, [](Communicator& c) {
      for (const std::string& failure : CollectiveChecker(c).run_large(600'011)) ADD_FAILURE() << failure;
    }));
}

TEST(Tcp, SumsAreThoseOfSharedMemory) {
  std::vector<bf16> results[2];
  const auto sum = [&](std::vector<bf16>& result) {
    return [&](Communicator& c) {
      auto values = inputs<bf16>(Data::kRandom, c.rank(), 0, 50021);
      c.all_reduce({values.data(), {50021}, DType::kBF16}, ReduceOp::kSum);
      if (c.rank() == 1) result = values;
    };
  };
  expect_fine(run_as_threads(3, sum(results[0])));
  expect_fine(run_over_tcp_as_threads(3, sum(results[1])));
  ASSERT_EQ(results[0].size(), results[1].size());
  EXPECT_EQ(0, std::memcmp(results[0].data(), results[1].data(), results[0].size() * sizeof(bf16)));
}

TEST(Tcp, TensorsThatDoNotFitAreErrors) {
  expect_fine(run_over_tcp_as_threads(2, [](Communicator& c) {
    float in[4] = {}, out[4] = {};
    EXPECT_THROW(c.all_gather({in, {3}, DType::kF32}, {out, {4}, DType::kF32}), Error);
    EXPECT_THROW(c.all_reduce({in, {2}, DType::kI32}, ReduceOp::kSum), Error);
    EXPECT_THROW(c.broadcast({in, {2}, DType::kF32}, 2), Error);
    c.barrier();  // nothing was sent, so the group still works
  }));
}

// Joining, with a store that the test hosts as a launcher would.
class TcpJoin : public ::testing::Test {
 protected:
  TcpWorld world(int rank, int size, std::chrono::milliseconds timeout = 20s) const {
    return {.run_id = "run",
            .rank = rank,
            .size = size,
            .store = {.place = {"127.0.0.1", {server_.port()}},
                      .token = "secret",
                      .hosted_by_launcher = true,
                      .attempt = "0"},
            .join_timeout = timeout,
            .timeout = timeout};
  }
  // Every world in a thread of its own, which sums over its ranks once.
  static std::vector<Outcome> join(const std::vector<TcpWorld>& worlds) {
    std::vector<Outcome> outcomes(worlds.size());
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < worlds.size(); ++i)
      threads.emplace_back([&, i] {
        try {
          float one = 1;
          join_tcp_world(worlds[i])->all_reduce({&one, {1}, DType::kF32}, ReduceOp::kSum);
          EXPECT_EQ(one, static_cast<float>(worlds[i].size));
        } catch (const Error& error) {
          outcomes[i] = {error.code(), error.what()};
        }
      });
    threads.clear();
    return outcomes;
  }
  static void expect(const Outcome& outcome, ExitCode code, const std::string& text) {
    EXPECT_EQ(outcome.code, code) << outcome.message;
    EXPECT_NE(outcome.message.find(text), std::string::npos) << outcome.message << "\ndoes not say: " << text;
  }

  const StoreServer server_{StoreOptions{.run_id = "run", .token = "secret"}};
};

TEST_F(TcpJoin, AttemptsThatShareAStoreDoNotMeet) {
  for (const char* attempt : {"0", "1", "2"}) {
    TcpWorld first = world(0, 2), second = world(1, 2);
    first.store.attempt = second.store.attempt = attempt;
    expect_fine(join({first, second}));
  }
}

TEST_F(TcpJoin, ARankThatDoesNotComeIsNamed) {
  for (const Outcome& outcome : join({world(0, 4, 700ms), world(2, 4, 700ms)}))
    expect(outcome, ExitCode::kPeerLost, "ranks 1, 3 did not come within 700 ms");
}

TEST_F(TcpJoin, TwoProcessesOfOneRankAreRefused) {
  const auto outcomes = join({world(1, 2, 2s), world(1, 2, 2s)});
  const bool first = outcomes[0].code == ExitCode::kConfiguration;
  expect(outcomes[first ? 0 : 1], ExitCode::kConfiguration, "two processes are rank 1 of run 'run'");
  expect(outcomes[first ? 1 : 0], ExitCode::kPeerLost, "rank 0 did not come");
}

TEST_F(TcpJoin, RanksOfWorldsOfDifferentSizesDisagree) {
  for (const Outcome& outcome : join({world(0, 2), world(1, 3)}))
    EXPECT_EQ(outcome.code, ExitCode::kRanksDisagree) << outcome.message;
}

TEST_F(TcpJoin, AnotherTokenOrRunIsRefused) {
  TcpWorld stranger = world(0, 2);
  stranger.store.token = "guess";
  expect(join({stranger})[0], ExitCode::kConfiguration, "have different tokens");
  stranger = world(0, 2);
  stranger.run_id = "yesterday";
  expect(join({stranger})[0], ExitCode::kConfiguration,
         "it belongs to run 'run', this process to run 'yesterday'");
}

// Whoever finds a rank's door while the run goes on.
TEST_F(TcpJoin, StrangersAtADoorDisturbNobody) {
  const auto knock = [&] {
    StoreClient observer({"127.0.0.1", {server_.port()}}, "secret", "run", -1, 20s);
    const std::string lines = observer.get("world/0/door/0", 20s);
    const int port = std::stoi(lines.substr(lines.find(' ')));
    std::string problem;
    int error = 0;
    const auto door = tcp::resolve("127.0.0.1", static_cast<uint16_t>(port), problem).front();
    std::vector<tcp::Socket> silent;
    for (int i = 0; i < 50; ++i) silent.push_back(tcp::connect_to(door, tcp::Clock::now() + 10s, error));
    const auto loud = tcp::connect_to(door, tcp::Clock::now() + 10s, error);
    const std::string noise(5000, '?');
    tcp::send_some(loud, noise.data(), noise.size());
    char bytes[100];
    const auto deadline = tcp::Clock::now() + 20s;
    while (tcp::receive_all(loud, bytes, 1, deadline) == tcp::Transfer::kDone) {
    }
    EXPECT_LT(tcp::Clock::now(), deadline) << "the door talks to strangers";
  };
  std::vector<Outcome> outcomes(2);
  std::vector<std::jthread> threads;
  for (const int rank : {0, 1})
    threads.emplace_back([&, rank] {
      try {
        const auto c = join_tcp_world(world(rank, 2, 60s));
        if (rank == 0) knock();
        check(*c, {1021});
        c->split(0)->barrier();
      } catch (const Error& error) {
        outcomes[rank] = {error.code(), error.what()};
      }
    });
  threads.clear();
  expect_fine(outcomes);
}

// Rank 0's store, at the first free one of several ports; the first is somebody else's, who says nothing.
TEST(TcpPorts, TheOthersAskAlongTheList) {
  int error = 0;
  std::string problem;
  const auto silent = tcp::listen_on(tcp::resolve("127.0.0.1", 0, problem).front(), error);
  const uint16_t taken = tcp::Address::of_this_end(silent).port();
  const std::vector<uint16_t> ports{taken, free_port()};
  std::vector<Outcome> outcomes(2);
  std::vector<std::jthread> threads;
  for (const int rank : {0, 1})
    threads.emplace_back([&, rank] {
      try {
        join_tcp_world({.run_id = "x",
                        .rank = rank,
                        .size = 2,
                        .store = {.place = {"127.0.0.1", ports}},
                        .join_timeout = 60s})
            ->barrier();
      } catch (const Error& error) {
        outcomes[rank] = {error.code(), error.what()};
      }
    });
  threads.clear();
  expect_fine(outcomes);
}

TEST(TcpPorts, OnePortThatIsTakenIsAnError) {
  const StoreServer other{StoreOptions{.run_id = "other"}};
  try {
    join_tcp_world({.run_id = "x", .rank = 0, .size = 2, .store = {.place = {"127.0.0.1", {other.port()}}}});
    FAIL() << "two stores on one port";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kConfiguration);
    EXPECT_NE(std::string(error.what()).find("Address already in use"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace recollect
