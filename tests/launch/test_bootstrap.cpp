// Ranks that find each other without MPI, at a store on a TCP port: started by hand, by torchrun, or with a
// store that a launcher hosts; and how that ends when something is wrong. How the nodes are divided is made
// up: all are this machine. test_nodes.cpp has real ones.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <ctime>
#include <filesystem>
#include <thread>

#include "comm/store/environment.h"
#include "comm/store/server.h"
#include "engine/io/node.h"
#include "tests/launch/ranks_by_hand.h"

namespace recollect::test::bootstrap_test {
namespace {

using namespace std::chrono_literals;
using tcp::Clock;

const std::string kHere = "127.0.0.1";

class Bootstrap : public ::testing::Test {
 protected:
  Environment variables(int rank, int size, int per_node, const Environment& more = {}) const {
    Environment all = torchrun_variables(rank, size, per_node, kHere, port_);
    all.insert(more.begin(), more.end());
    return all;
  }
  void start_two(const Environment& first, const Environment& second, const Words& words = {}) {
    ranks_.start(variables(0, 2, 1, first), words);
    ranks_.start(variables(1, 2, 1, second), words);
  }
  static void expect(const Finished& finished, int status, const std::string& text) {
    EXPECT_EQ(finished.status, status) << finished.err;
    EXPECT_NE(finished.err.find(text), std::string::npos) << finished.err << "\ndoes not say: " << text;
  }
  tcp::Socket connect() const {
    std::string problem;
    int error = 0;
    return tcp::connect_to(tcp::resolve(kHere, port_, problem).front(), Clock::now() + 10s, error);
  }
  bool somebody_listens(std::chrono::seconds bound) const {
    for (const auto deadline = Clock::now() + bound; Clock::now() < deadline;
         std::this_thread::sleep_for(5ms))
      if (connect()) return true;
    return false;
  }

  const Workplace place_;
  const uint16_t port_ = free_port();
  RanksByHand ranks_{place_};
};

TEST_F(Bootstrap, FourRanksOfTwoNodesTrainAsThoseOfOneProcess) {
  write_store_token(place_.file("token"), make_store_token());
  for (int rank = 0; rank < 4; ++rank)
    ranks_.start(variables(rank, 4, 2, {{"RECOLLECT_STORE_TOKEN_FILE", place_.file("token")}}), two_by_two());
  const auto finished = ranks_.wait();
  for (const Finished& rank : finished) EXPECT_EQ(rank.status, 0) << rank.err;
  EXPECT_NE(finished[0].out.find("2 data x 2 tensor ranks (tcp)"), std::string::npos) << finished[0].out;
  EXPECT_EQ(finished[0].err, "") << "with a token, there is nothing to warn of";
  EXPECT_EQ(numbers(place_.metrics()), two_by_two_in_one_process(place_));
  EXPECT_FALSE(connect()) << "the store's port is still open";
}

// Later than the others, and on one node, where only the configuration says so.
TEST_F(Bootstrap, RankZeroMayComeLast) {
  const Words words = two_by_two() + Words{"parallelism.communicator=tcp"};
  for (const int rank : {3, 2, 1, 0}) {
    if (rank == 0) std::this_thread::sleep_for(300ms);
    ranks_.start(variables(rank, 4, 4), words);
  }
  for (const Finished& rank : ranks_.wait()) EXPECT_EQ(rank.status, 0) << rank.err;
  EXPECT_EQ(numbers(place_.metrics()), two_by_two_in_one_process(place_));
}

// srun --mpi=none on two nodes with two tasks each.
TEST_F(Bootstrap, SlurmWithoutMpi) {
  for (int rank = 0; rank < 4; ++rank)
    ranks_.start({{"SLURM_JOB_ID", "77"},
                  {"SLURM_STEP_ID", "0"},
                  {"SLURM_PROCID", std::to_string(rank)},
                  {"SLURM_NTASKS", "4"},
                  {"SLURM_LOCALID", std::to_string(rank % 2)},
                  {"SLURM_NODEID", std::to_string(rank / 2)},
                  {"SLURM_NNODES", "2"},
                  {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                  {"MASTER_ADDR", "localhost"},
                  {"MASTER_PORT", std::to_string(port_)}},
                 two_by_two());
  for (const Finished& rank : ranks_.wait()) EXPECT_EQ(rank.status, 0) << rank.err;
  EXPECT_EQ(numbers(place_.metrics()), two_by_two_in_one_process(place_));
}

// One store for all attempts of a run, as a launcher that restarts has it.
TEST_F(Bootstrap, ALauncherHostsTheStore) {
  const std::string token = make_store_token(), path = place_.file("token");
  write_store_token(path, token);
  const StoreServer store(StoreOptions{.run_id = "mine", .token = token});
  for (const char* attempt : {"0", "1"}) {
    RanksByHand ranks(place_);
    for (int rank = 0; rank < 2; ++rank) {
      Environment environment = torchrun_variables(rank, 2, 2, kHere, store.port());
      environment.insert({{"RECOLLECT_STORE", "launcher"},
                          {"RECOLLECT_STORE_TOKEN_FILE", path},
                          {"RECOLLECT_RUN_ID", "mine"},
                          {"TORCHELASTIC_RESTART_COUNT", attempt}});
      ranks.start(environment, {"parallelism.communicator=tcp"});
    }
    for (const Finished& rank : ranks.wait()) EXPECT_EQ(rank.status, 0) << rank.err;
  }
}

TEST_F(Bootstrap, AnotherTokenIsRefused) {
  start_two({{"RECOLLECT_STORE_TOKEN", "monday"}}, {{"RECOLLECT_STORE_TOKEN", "tuesday"}},
            {"parallelism.timeout_seconds=2"});
  const auto finished = ranks_.wait();
  expect(finished[0], 9, "rank 1 did not come within 2 s");
  expect(
      finished[1], 2,
      "rank 1: the store at 127.0.0.1:" + std::to_string(port_) + " and this process have different tokens");
  for (const Finished& rank : finished)
    EXPECT_EQ((rank.err + rank.out).find("day"), std::string::npos) << "a secret is shown";
}

TEST_F(Bootstrap, TheStoreOfAnotherRunIsNotJoined) {
  start_two({{"RECOLLECT_RUN_ID", "old"}}, {{"RECOLLECT_RUN_ID", "new"}}, {"parallelism.timeout_seconds=2"});
  const auto finished = ranks_.wait();
  expect(finished[0], 9, "rank 1 did not come");
  expect(finished[1], 2, "it belongs to run 'old', this process to run 'new'");
}

TEST_F(Bootstrap, NobodyIsWaitedForForEver) {
  ranks_.start(variables(1, 2, 1), {"parallelism.timeout_seconds=1"});
  expect(ranks_.wait().front(), 9,
         "rank 1 did not reach the store of its run at 127.0.0.1:" + std::to_string(port_) + " within 1 s");
}

TEST_F(Bootstrap, GarbageAtThePortDisturbsNobody) {
  ranks_.start(variables(0, 2, 1), {});
  ASSERT_TRUE(somebody_listens(60s));
  std::vector<tcp::Socket> strangers;
  const std::string garbage(10000, '\xa5');
  for (int i = 0; i < 100; ++i) {
    strangers.push_back(connect());
    if (i % 2 == 0) tcp::send_some(strangers.back(), garbage.data(), garbage.size());
  }
  ranks_.start(variables(1, 2, 1), {});
  for (const Finished& rank : ranks_.wait()) EXPECT_EQ(rank.status, 0) << rank.err;
}

TEST_F(Bootstrap, APortThatIsTakenIsAnError) {
  const StoreServer other(StoreOptions{.ports = {port_}, .run_id = "other"});
  ranks_.start(variables(0, 2, 1), {});
  expect(ranks_.wait().front(), 2, "127.0.0.1:" + std::to_string(port_) + ": Address already in use");
}

TEST_F(Bootstrap, WhatMakesNoSenseIsRefused) {
  write_store_token(place_.file("open"), "abc");
  ASSERT_EQ(::chmod(place_.file("open").c_str(), 0644), 0);
  const auto refused = [&](Environment environment, const Words& words, const std::string& text) {
    expect(place_.train(words, environment), 2, text);
  };
  Environment nowhere = variables(0, 2, 1);
  nowhere.erase("MASTER_ADDR");
  refused(nowhere, {}, "MASTER_ADDR is not set");
  refused(variables(0, 2, 1, {{"RECOLLECT_STORE_TOKEN_FILE", place_.file("open")}}), {},
          "is open to other users");
  refused(variables(0, 2, 1, {{"RECOLLECT_STORE", "there"}}), {}, "RECOLLECT_STORE is 'there'");
  Environment elsewhere = variables(0, 2, 1);
  elsewhere["MASTER_ADDR"] = "203.0.113.7";
  refused(elsewhere, {}, "203.0.113.7");
  refused(variables(0, 2, 1), {"parallelism.communicator=local"}, "only 1 of 2 ranks are on this node");
  refused({}, {"parallelism.communicator=tcp", "parallelism.ranks_per_process=2"},
          "parallelism.communicator tcp is for processes");
  // A program that uses MPI and that torchrun has started is a world of its own: it must not train alone.
  refused(variables(0, 2, 2), {"parallelism.communicator=mpi"},
          "torchrun says this is rank 0 of 2, but the MPI world has 1 rank");
  refused(variables(0, 2, 2, {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}), {},
          "torchrun says rank 0 of 2 (0 of 2 on its node); Open MPI says rank 1 of 2");
}

TEST_F(Bootstrap, AKilledRankEndsTheOthers) {
  const Words words = two_by_two(2000000);
  for (int rank = 0; rank < 4; ++rank) ranks_.start(variables(rank, 4, 2), words);
  ASSERT_TRUE(ranks_.wait_for_steps()) << ranks_.wait(1s)[0].err;
  ASSERT_EQ(::kill(ranks_.process(3).pid(), SIGKILL), 0);
  const auto start = Clock::now();
  const auto finished = ranks_.wait(60s);
  EXPECT_LT(Clock::now() - start, 30s) << "a lost rank must be noticed quickly";
  for (const int rank : {0, 1, 2}) expect(finished[rank], 9, "the process of rank 3 has ended");
  EXPECT_EQ(finished[3].status, 128 + SIGKILL);
}

// All processes of one node at once: those of the other one have nobody there left to tell them.
TEST_F(Bootstrap, ANodeWhoseProcessesDieEndsTheOther) {
  const Words words = two_by_two(2000000);
  for (int rank = 0; rank < 4; ++rank) ranks_.start(variables(rank, 4, 2), words);
  ASSERT_TRUE(ranks_.wait_for_steps()) << ranks_.wait(1s)[0].err;
  for (const int rank : {2, 3}) ASSERT_EQ(::kill(ranks_.process(rank).pid(), SIGKILL), 0);
  const auto start = Clock::now();
  const auto finished = ranks_.wait(60s);
  EXPECT_LT(Clock::now() - start, 5s);
  for (const int rank : {0, 1}) expect(finished[rank], 9, "has ended");
}

// Nobody asks what time of the day it is for another.
TEST_F(Bootstrap, AClockThatIsAnHourAheadChangesNothing) {
  Process date({"date", "+%s"}, place_.folder().path(), {{"LD_PRELOAD", RECOLLECT_CLOCK_AHEAD}});
  ASSERT_GT(std::stoll(date.wait(25s).out), std::time(nullptr) + 3000) << "the clock is right";
  for (int rank = 0; rank < 4; ++rank)
    ranks_.start(
        variables(rank, 4, 2, rank == 3 ? Environment{{"LD_PRELOAD", RECOLLECT_CLOCK_AHEAD}} : Environment{}),
        two_by_two() + Words{"parallelism.timeout_seconds=60"});
  for (const Finished& rank : ranks_.wait()) EXPECT_EQ(rank.status, 0) << rank.err;
  EXPECT_EQ(numbers(place_.metrics()), two_by_two_in_one_process(place_));
}

// Two agents of stock torchrun, as on two nodes. The first holds MASTER_PORT itself.
TEST_F(Bootstrap, StockTorchrunOnTwoNodes) {
  if (std::system("command -v torchrun >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no torchrun";
  const Traces traces;
  std::deque<Process> agents;
  for (const char* node : {"0", "1"}) {
    const std::string folder = place_.file(std::string("node") + node);
    std::filesystem::create_directory(folder);
    agents.emplace_back(
        Words{"torchrun", "--nnodes", "2", "--node-rank", node, "--nproc-per-node", "2", "--master-addr",
              kHere, "--master-port", std::to_string(port_), "--no-python", recollect_binary(), "train",
              place_.file("c.yaml"), "output_dir=" + place_.file("out")} +
            two_by_two(),
        folder, traces.environment());
  }
  for (Process& agent : agents) {
    const Finished finished = agent.wait(Workplace::kBound);
    EXPECT_EQ(finished.status, 0) << finished.err;
  }
  traces.expect_none();
  EXPECT_EQ(numbers(place_.metrics()), two_by_two_in_one_process(place_));
}

// PyTorch's env:// needs no more than these.
TEST_F(Bootstrap, FourVariablesSetByHandAreEnough) {
  for (int rank = 0; rank < 2; ++rank) {
    Environment four = variables(rank, 2, 2);
    for (const char* name : {"LOCAL_RANK", "LOCAL_WORLD_SIZE"}) four.erase(name);
    ranks_.start(four, {});
  }
  for (const Finished& finished : ranks_.wait()) expect(finished, 0, "");
  Environment port = variables(0, 2, 2);
  for (const char* name : {"LOCAL_RANK", "LOCAL_WORLD_SIZE"}) port.erase(name);
  port["MASTER_PORT"] = "99999";
  expect(place_.train({}, port), 2, "MASTER_PORT is '99999', not a port");
}

// As one who knows torchrun sets it by hand.
TEST_F(Bootstrap, RanksThatDoNotKnowWhereToMeetAreToldTheVariables) {
  const Workplace place;
  const Finished done = place.train({"parallelism.timeout_seconds=5"}, {{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  EXPECT_EQ(done.status, 2) << done.out;
  EXPECT_NE(done.err.find("there are 2 processes on this node"), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("set MASTER_ADDR and MASTER_PORT"), std::string::npos) << done.err;
}

}  // namespace
}  // namespace recollect::test::bootstrap_test
