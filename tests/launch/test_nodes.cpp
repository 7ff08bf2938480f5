// Two nodes, as far as one machine has them: two network namespaces with a cable between them. Ranks on both
// train together over TCP and over MPI, and notice when the cable is cut. Needs root and the ip command.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <thread>

#include "comm/tcp/socket.h"
#include "tests/launch/ranks_by_hand.h"

namespace recollect::test::nodes_test {
namespace {

using namespace std::chrono_literals;
using tcp::Clock;

constexpr uint16_t kPort = 29500;  // the namespaces are new: everything is free there

// Both nodes and their cable; gone with this object, whatever happened. Nodes of a test that was killed are
// taken away by the next one.
class Nodes {
 public:
  Nodes() {
    remove_those_of_the_dead();
    for (const int node : {0, 1}) run("ip netns add " + name(node));
    run("ip link add " + device(0) + " netns " + name(0) + " type veth peer name " + device(1) + " netns " +
        name(1));
    for (const int node : {0, 1}) {
      const std::string ip = "ip -n " + name(node);
      run(ip + " address add " + address(node) + "/24 dev " + device(node));
      run(ip + " link set lo up");
      run(ip + " link set " + device(node) + " up");
    }
  }
  ~Nodes() {
    for (const int node : {0, 1}) run("ip netns delete " + name(node));
  }

  static std::string address(int node) { return node == 0 ? "10.77.0.1" : "10.77.0.2"; }
  // The words that start a program on a node, under the node's host name.
  Words on(int node) const {
    return {"ip",       "netns",   "exec",
            name(node), "unshare", "--uts",
            "sh",       "-c",      "hostname node" + std::to_string(node) + " && exec \"$0\" \"$@\""};
  }
  void cut_the_cable() const { run("ip -n " + name(1) + " link set " + device(1) + " down"); }
  bool works() const { return works_; }

 private:
  static std::string prefix() { return "recollect-test-"; }
  std::string name(int node) const {
    return prefix() + std::to_string(::getpid()) + (node == 0 ? "-a" : "-b");
  }
  static std::string device(int node) { return node == 0 ? "cable0" : "cable1"; }
  void run(const std::string& command) const {
    if (std::system((command + " >/dev/null 2>&1").c_str()) != 0) works_ = false;
  }
  static void remove_those_of_the_dead() {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator("/run/netns", none)) {
      const std::string found = entry.path().filename();
      if (!found.starts_with(prefix())) continue;
      const int owner = std::atoi(found.c_str() + prefix().size());
      if (owner > 0 && ::kill(owner, 0) != 0 && std::system(("ip netns delete " + found).c_str()) != 0)
        std::fprintf(stderr, "%s is left\n", found.c_str());
    }
  }

  mutable bool works_ = true;
};

class TwoNodes : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "network namespaces need root";
    nodes_ = std::make_unique<Nodes>();
    if (!nodes_->works()) GTEST_SKIP() << "network namespaces cannot be made here (iproute2, CAP_SYS_ADMIN)";
  }
  void start(const Words& words) {
    for (int rank = 0; rank < 4; ++rank) {
      Environment environment = torchrun_variables(rank, 4, 2, Nodes::address(0), kPort);
      environment["RECOLLECT_STORE_TOKEN"] = "both nodes know it";
      ranks_.start(environment, words, nodes_->on(rank / 2));
    }
  }

  const Workplace place_;
  RanksByHand ranks_{place_};
  std::unique_ptr<Nodes> nodes_;
};

TEST_F(TwoNodes, TrainOverTcpAsOneProcessDoes) {
  start(two_by_two());
  const auto finished = ranks_.wait();
  for (const Finished& rank : finished) EXPECT_EQ(rank.status, 0) << rank.err;
  EXPECT_NE(finished[0].out.find("(tcp)"), std::string::npos) << finished[0].out;
  EXPECT_EQ(numbers(place_.metrics()), two_by_two_in_one_process(place_));
}

// Each node has its own copy of the corpus, and one is another.
TEST_F(TwoNodes, NameTheNodeThatReadsOtherData) {
  for (int rank = 0; rank < 4; ++rank)
    place_.folder().write("process" + std::to_string(rank) + "/corpus.txt",
                          std::string(400, rank < 2 ? 'a' : 'b'));
  start(two_by_two() + Words{"model.vocab_size=256", "data.format=text", "data.path=corpus.txt"});
  int themselves = 0, told = 0;  // the others may hear of it from one that was quicker, and do not repeat it
  for (const Finished& rank : ranks_.wait()) {
    EXPECT_TRUE(rank.status == 8 || rank.status == 9) << rank.err;
    themselves += rank.status == 8;
    if (rank.err.find("data.path, corpus.txt: 400 bytes, ") == std::string::npos) continue;
    ++told;
    EXPECT_NE(rank.err.find("on ranks 0-1 (node0)"), std::string::npos) << rank.err;
    EXPECT_NE(rank.err.find("on ranks 2-3 (node1)"), std::string::npos) << rank.err;
  }
  EXPECT_GE(themselves, 1);
  EXPECT_EQ(told, 1);
}

TEST_F(TwoNodes, NoticeThatTheCableIsCut) {
  start(two_by_two(2000000) + Words{"parallelism.timeout_seconds=3"});
  ASSERT_TRUE(ranks_.wait_for_steps()) << ranks_.wait(1s)[0].err;
  nodes_->cut_the_cable();
  const auto start = Clock::now();
  const auto finished = ranks_.wait(60s);
  EXPECT_LT(Clock::now() - start, 3s + 2s);
  // Of the other node one rank is missed, or both.
  const std::regex late(
      "#[0-9]+ of rank [0-9]( \\(\\S+\\))?: ranks? [0-9](, [0-9])* did not come within 3 s");
  for (const Finished& rank : finished) {
    EXPECT_EQ(rank.status, 9) << rank.err;
    EXPECT_TRUE(std::regex_search(rank.err, late)) << "the collective and its number: " << rank.err;
  }
}

// mpirun reaches the other node through what stands in for ssh.
TEST_F(TwoNodes, TrainUnderMpirunWithAHostFile) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "MPI under ThreadSanitizer";
#endif
  place_.folder().write("hosts", Nodes::address(0) + " slots=2\n" + Nodes::address(1) + " slots=2\n");
  std::string enter;
  for (const std::string& word : nodes_->on(1)) enter += "'" + word + "' ";
  const std::string agent =
      place_.folder().write("agent", "#!/bin/sh\nshift\nexec " + enter + "sh -c \"$*\"\n");
  std::filesystem::permissions(agent, std::filesystem::perms::owner_all);
  const std::string subnet = "10.77.0.0/24";
  const Words command = nodes_->on(0) + mpirun() +
                        Words{"--hostfile",
                              "hosts",
                              "-np",
                              "4",
                              "--mca",
                              "plm_rsh_agent",
                              agent,
                              "--mca",
                              "btl_tcp_if_include",
                              subnet,
                              "--mca",
                              "oob_tcp_if_include",
                              subnet,
                              recollect_binary(),
                              "train",
                              place_.file("c.yaml"),
                              "output_dir=" + place_.file("out")} +
                        two_by_two();
  const Traces traces;
  const Finished finished =
      Process(command, place_.folder().path(), traces.environment()).wait(Workplace::kBound);
  EXPECT_EQ(finished.status, 0) << finished.err;
  traces.expect_none();
  EXPECT_NE(finished.out.find("(mpi)"), std::string::npos) << finished.out;
  EXPECT_EQ(numbers(place_.metrics()), two_by_two_in_one_process(place_));
}

}  // namespace
}  // namespace recollect::test::nodes_test
