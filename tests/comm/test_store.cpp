// The store: what it keeps, what its clients wait for, and how they hear of each other's failures.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "comm/store/client.h"
#include "comm/store/environment.h"
#include "comm/store/server.h"
#include "engine/core/error.h"
#include "engine/io/node.h"
#include "tests/comm/ranks.h"
#include "tests/engine/temporary_folder.h"

namespace recollect {
namespace {

using namespace std::chrono_literals;
using test::Outcome;
using Clock = std::chrono::steady_clock;

// Nobody waits for it to pass: it is only to be long enough on a machine that does other things.
constexpr auto kPatience = 60s;

Outcome outcome_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

void expect(const Outcome& outcome, ExitCode code, const std::vector<std::string>& mentions) {
  EXPECT_EQ(outcome.code, code) << outcome.message;
  for (const std::string& text : mentions)
    EXPECT_NE(outcome.message.find(text), std::string::npos) << outcome.message << "\ndoes not say: " << text;
}

std::unique_ptr<StoreServer> open_store(const std::string& run_id = "run",
                                        const std::string& token = "secret", StoreLimits limits = {}) {
  return std::make_unique<StoreServer>(StoreOptions{.run_id = run_id, .token = token, .limits = limits});
}

std::unique_ptr<StoreClient> client_of(const StoreServer& server, int rank = -1,
                                       const std::string& run_id = "run", const std::string& token = "secret",
                                       std::chrono::milliseconds timeout = kPatience) {
  return std::make_unique<StoreClient>(StorePlace{"127.0.0.1", {server.port()}}, token, run_id, rank,
                                       timeout);
}

// The ranks' parts in threads; what became of each.
std::vector<Outcome> run_ranks(const StoreServer& server, int ranks,
                               const std::function<void(StoreClient&, int rank)>& function) {
  std::vector<Outcome> outcomes(ranks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back(
        [&, rank] { outcomes[rank] = outcome_of([&] { function(*client_of(server, rank), rank); }); });
  threads.clear();
  return outcomes;
}

TEST(Store, KeepsWhatIsSet) {
  const auto server = open_store();
  const auto a = client_of(*server), b = client_of(*server);
  std::string large(store::kLongestValue, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7);
  const std::string long_key(store::kLongestKey, 'k');
  a->set("x", "1");
  a->set("empty", "");
  a->set(long_key, large);
  EXPECT_EQ(b->get("x", kPatience), "1");
  EXPECT_EQ(b->get("empty", kPatience), "");
  EXPECT_EQ(b->get(long_key, kPatience), large);
  b->set("x", "2");
  EXPECT_EQ(a->get("x", kPatience), "2");
  a->erase("x");
  a->erase("x");
  expect(outcome_of([&] { b->get("x", 10ms); }), ExitCode::kPeerLost,
         {"waited for 'x'", server->address(), "nobody set it within 10 ms"});
  EXPECT_EQ(b->get("empty", kPatience), "") << "a wait that ran out of time does no harm";
}

TEST(Store, AddsAndSaysWhenItCannot) {
  const auto server = open_store();
  const auto client = client_of(*server);
  EXPECT_EQ(client->add("n", 5), 5);
  EXPECT_EQ(client->add("n", -12), -7);
  EXPECT_EQ(client->get("n", kPatience), "-7");
  EXPECT_EQ(client->add("n", 0), -7);
  client->set("text", "seven");
  EXPECT_EQ(outcome_of([&] { client->add("text", 1); }).code, ExitCode::kInternal);
  client->set("large", std::to_string(INT64_MAX));
  EXPECT_EQ(outcome_of([&] { client->add("large", 1); }).code, ExitCode::kInternal);
  EXPECT_EQ(client->get("large", kPatience), std::to_string(INT64_MAX));
}

TEST(Store, CountsEverybodyOnce) {
  const auto server = open_store();
  const auto outcomes = run_ranks(*server, 8, [](StoreClient& client, int) {
    for (int i = 0; i < 50; ++i) client.add("n", 1);
    client.barrier("done", 8, kPatience);
    EXPECT_EQ(client.get("n", kPatience), "400");
  });
  test::expect_fine(outcomes);
}

TEST(Store, GetAndWaitReturnWhenTheLastKeyIsSet) {
  const auto server = open_store();
  const auto setter = client_of(*server);
  std::atomic<int> waiting = 0;
  std::vector<Outcome> outcomes(3);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      outcomes[i] = outcome_of([&] {
        const auto client = client_of(*server);
        ++waiting;
        i == 0 ? client->wait({"a", "b", "c"}, kPatience) : (void)client->get("c", kPatience);
        EXPECT_EQ(client->get("b", 0ms), "2");
      });
    });
  while (waiting < 3) std::this_thread::yield();
  for (const char* key : {"a", "b", "c"}) setter->set(key, "2");
  threads.clear();
  test::expect_fine(outcomes);
  expect(outcome_of([&] {
           setter->wait({"a", "missing", "b"}, 10ms);
         }),
         ExitCode::kPeerLost, {"waited for 3 keys", "nobody set 'missing' within 10 ms"});
}

TEST(Store, BarriersHoldEverybodyAndCanBeUsedAgain) {
  const auto server = open_store();
  std::atomic<int> arrived = 0;
  const auto outcomes = run_ranks(*server, 5, [&](StoreClient& client, int) {
    for (int turn = 1; turn <= 20; ++turn) {
      ++arrived;
      client.barrier("turn", 5, kPatience);
      EXPECT_GE(arrived, 5 * turn);
    }
  });
  test::expect_fine(outcomes);
  client_of(*server, 0)->barrier("alone", 1, 0ms);
}

TEST(Store, ABarrierNamesWhoIsMissingToAllAndToWhoeverComesLate) {
  const auto server = open_store();
  const auto outcomes =
      run_ranks(*server, 2, [](StoreClient& client, int) { client.barrier("b", 5, 200ms); });
  for (const Outcome& outcome : outcomes)
    expect(outcome, ExitCode::kPeerLost,
           {"barrier 'b' of 5 ranks: ranks 2, 3, 4 did not come within 200 ms"});
  expect(outcome_of([&] { client_of(*server, 3)->barrier("b", 5, kPatience); }), ExitCode::kPeerLost,
         {"ranks 2, 3, 4 did not come"});
}

TEST(Store, AManyRanksBarrierNamesSome) {
  const auto server = open_store();
  expect(outcome_of([&] { client_of(*server, 7)->barrier("b", 60000, 1ms); }), ExitCode::kPeerLost,
         {"ranks 0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16 and 59983 more did not come"});
}

TEST(Store, RanksThatExpectDifferentThingsOfABarrierHearIt) {
  const auto server = open_store();
  const auto sizes = run_ranks(
      *server, 2, [](StoreClient& client, int rank) { client.barrier("b", rank == 0 ? 3 : 4, kPatience); });
  for (const Outcome& outcome : sizes) EXPECT_EQ(outcome.code, ExitCode::kRanksDisagree) << outcome.message;
  expect(outcome_of([&] { client_of(*server, 4)->barrier("c", 4, kPatience); }), ExitCode::kConfiguration,
         {"rank 4 comes to a barrier of 4 ranks"});
  expect(outcome_of([&] { client_of(*server, -1)->barrier("c", 4, kPatience); }), ExitCode::kConfiguration,
         {});
}

TEST(Store, ARankThatGoesEndsTheBarrierThatWaitsForIt) {
  const auto server = open_store();
  const auto start = Clock::now();
  std::atomic<int> here = 0;
  const auto outcomes = run_ranks(*server, 3, [&](StoreClient& client, int rank) {
    ++here;
    while (here < 3) std::this_thread::yield();
    if (rank == 2) throw Error(ExitCode::kNumerics, "something else");
    client.barrier("b", 3, kPatience);
  });
  for (const int rank : {0, 1})
    expect(outcomes[rank], ExitCode::kPeerLost, {"barrier 'b' of 3 ranks: rank 2 has gone"});
  EXPECT_LT(Clock::now() - start, kPatience);
  // Those who come afterwards, as in a restart, are not concerned.
  test::expect_fine(
      run_ranks(*server, 3, [](StoreClient& client, int) { client.barrier("c", 3, kPatience); }));
}

TEST(Store, AServerThatGoesIsALostPeer) {
  auto server = open_store();
  const std::string address = server->address();
  const auto client = client_of(*server, 1);
  client->set("x", "1");
  std::jthread closer([&] {
    const auto last = client_of(*server);
    last->get("waiting", kPatience);
    server.reset();
  });
  client->set("waiting", "");
  expect(outcome_of([&] { client->get("never", kPatience); }), ExitCode::kPeerLost,
         {"the store at " + address + " has gone while rank 1 of run 'run' waited for 'never'"});
  expect(outcome_of([&] { client->set("x", "2"); }), ExitCode::kPeerLost, {"was lost earlier"});
}

TEST(Store, ClientsMayComeFirst) {
  const uint16_t port = free_port();
  Outcome outcome;
  std::jthread client([&] {
    outcome = outcome_of([&] {
      StoreClient(StorePlace{"localhost", {port}}, "t", "r", 0, kPatience).set("here", "");
    });
  });
  std::this_thread::sleep_for(100ms);  // it has been refused by now, or comes late: both are fine
  const StoreServer server(StoreOptions{.ports = {port}, .run_id = "r", .token = "t"});
  StoreClient(StorePlace{"127.0.0.1", {port}}, "t", "r", 1, kPatience).get("here", kPatience);
  client.join();
  test::expect_fine({outcome});
}

TEST(Store, NobodyThereIsALostPeer) {
  const uint16_t port = free_port();
  expect(outcome_of([&] {
           StoreClient(StorePlace{"127.0.0.1", {port}}, "t", "r", 3, 100ms);
         }),
         ExitCode::kPeerLost,
         {"rank 3 of run 'r' did not reach the store of its run at 127.0.0.1:" + std::to_string(port) +
              " within 100 ms",
          "Connection refused"});
  expect(outcome_of([&] {
           StoreClient(StorePlace{"not a host", {port}}, "t", "r", 3, 100ms);
         }),
         ExitCode::kPeerLost, {"not a host"});
}

TEST(Store, TheWrongTokenOrRunIsRefusedAtOnce) {
  const auto server = open_store("monday", "secret");
  const auto refused = outcome_of([&] { client_of(*server, 2, "monday", "guess"); });
  expect(refused, ExitCode::kConfiguration, {"the store at " + server->address(), "have different tokens"});
  for (const char* secret : {"secret", "guess"})
    EXPECT_EQ(refused.message.find(secret), std::string::npos) << refused.message;
  expect(outcome_of([&] { client_of(*server, 2, "tuesday"); }), ExitCode::kConfiguration,
         {"it belongs to run 'monday', this process to run 'tuesday'"});
  expect(outcome_of([&] { client_of(*server, 2, std::string(300, 'x')); }), ExitCode::kConfiguration,
         {"a run id of 300 bytes"});
  client_of(*server, 2, "monday")->set("x", "1");
  // Without a token, the run id alone tells runs apart.
  const auto open = open_store("monday", "");
  client_of(*open, 2, "monday", "")->set("x", "1");
  expect(outcome_of([&] { client_of(*open, 2, "tuesday", ""); }), ExitCode::kConfiguration, {"'monday'"});
  expect(outcome_of([&] { client_of(*open, 2, "monday", "x"); }), ExitCode::kConfiguration, {"tokens"});
}

TEST(Store, AFullStoreSaysSoAndGoesOn) {
  const auto server = open_store("run", "secret", {.stored_bytes = 3 << 20});
  const auto client = client_of(*server);
  const std::string value(store::kLongestValue, 'v');
  client->set("a", value);
  client->set("b", value);
  expect(outcome_of([&] { client->set("c", value); }), ExitCode::kHostMemory, {"is full", "set 'c'"});
  client->set("b", value);  // in the place of what is there
  client->erase("a");
  client->set("c", value);
  EXPECT_EQ(client->get("c", kPatience), value);
  const auto stuff = [&] {
    for (int i = 0; i < 100000; ++i) client->set("k" + std::to_string(i), "");
  };
  EXPECT_EQ(outcome_of(stuff).code, ExitCode::kHostMemory) << "empty values take room too";
}

// A request may end between any two looks at its connection: none is left lying there.
TEST(Store, LongRequestsAreAnsweredHoweverTheyArrive) {
  const auto server = open_store();
  const auto outcomes = run_ranks(*server, 2, [](StoreClient& client, int rank) {
    const std::string value(300 << 10, 'v');
    for (int i = 0; i < 1000; ++i) client.set("of " + std::to_string(rank), value);
  });
  test::expect_fine(outcomes);
}

TEST(Store, KeysAndValuesHaveBounds) {
  const auto server = open_store();
  const auto client = client_of(*server);
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { client->set("", "x"); }, [&] { client->set(std::string(257, 'k'), "x"); },
           [&] { client->set("k", std::string((1 << 20) + 1, 'v')); }, [&] { client->get("", 1ms); },
           [&] { client->wait(std::vector<std::string>(5000, "k"), 1ms); }})
    EXPECT_EQ(outcome_of(call).code, ExitCode::kInternal);
  client->set("k", "still there");
}

TEST(Store, APortThatCannotBeHadIsAnError) {
  const auto server = open_store();
  expect(outcome_of([&] {
           StoreServer(StoreOptions{
               .ports = {server->port()},
           });
         }),
         ExitCode::kConfiguration, {server->address(), "Address already in use"});
  expect(outcome_of([&] {
           StoreServer(StoreOptions{
               .host = "203.0.113.7",
           });
         }),
         ExitCode::kConfiguration, {"203.0.113.7", "Cannot assign requested address"});
}

// Where the processes of a run meet.
using Variables = std::map<std::string, std::string>;

StoreEnvironment find(const Variables& variables) {
  const RankEnvironment who{
      .rank = 1, .size = 2, .local_rank = 0, .local_size = 1, .source = "torchrun", .run_id = "abc:29500"};
  return find_store(who, [&](const char* name) -> const char* {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

Variables place(Variables more = {}) {
  more.insert({{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}});
  return more;
}

TEST(StoreEnvironment, SaysWhereAndWho) {
  EXPECT_EQ(find(place()).place.to_string(), "node1:29500");
  EXPECT_FALSE(find(place()).hosted_by_launcher);
  const auto launcher = find(place({{"RECOLLECT_STORE", "launcher"},
                                    {"TORCHELASTIC_RESTART_COUNT", "3"},
                                    {"TORCHELASTIC_USE_AGENT_STORE", "True"}}));
  EXPECT_TRUE(launcher.hosted_by_launcher);
  EXPECT_EQ(launcher.attempt, "3");
  EXPECT_EQ(launcher.place.to_string(), "node1:29500");
}

TEST(StoreEnvironment, WhereTorchrunHoldsThePortThereAreOthers) {
  const auto ports = find(place({{"TORCHELASTIC_USE_AGENT_STORE", "True"}})).place.ports;
  EXPECT_EQ(ports, find(place({{"TORCHELASTIC_USE_AGENT_STORE", "True"}})).place.ports);
  EXPECT_EQ(std::set<uint16_t>(ports.begin(), ports.end()).size(), 16u);
  for (const uint16_t port : ports) EXPECT_TRUE(port >= 20000 && port < 32000) << port;
  const auto others =
      find({{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29501"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  EXPECT_NE(others.place.ports, ports);
  EXPECT_EQ(find(place({{"TORCHELASTIC_USE_AGENT_STORE", "False"}})).place.to_string(), "node1:29500");
}

TEST(StoreEnvironment, NonsenseIsRefused) {
  const auto refused = [](const Variables& variables, const std::string& text) {
    expect(outcome_of([&] { find(variables); }), ExitCode::kConfiguration, {text});
  };
  refused({{"MASTER_PORT", "1"}}, "MASTER_ADDR is not set");
  refused({{"MASTER_ADDR", "a"}}, "MASTER_PORT is not set");
  for (const char* port : {"0", "65536", "-1", "x", "1x", " 1", "99999999999"})
    refused({{"MASTER_ADDR", "a"}, {"MASTER_PORT", port}}, std::string("MASTER_PORT is '") + port + "'");
  refused(place({{"RECOLLECT_STORE", "me"}}), "RECOLLECT_STORE is 'me'");
}

// A name for the node itself that only the node itself can use.
TEST(StoreEnvironment, ALoopbackNameIsNoPlaceForOtherNodes) {
  const auto find_from = [&](int rank, int local_size, const std::string& host) {
    const RankEnvironment who{.rank = rank, .size = 2, .local_size = local_size, .source = "x", .run_id = {}};
    const Variables variables{{"MASTER_ADDR", host}, {"MASTER_PORT", "29500"}};
    find_store(who, [&](const char* wanted) -> const char* {
      const auto it = variables.find(wanted);
      return it == variables.end() ? nullptr : it->second.c_str();
    });
  };
  expect(outcome_of([&] { find_from(0, 1, "127.1"); }), ExitCode::kConfiguration,
         {"'127.1' is 127.0.0.1 on its own node"});
  find_from(1, 1, "127.1");
  find_from(0, 2, "127.1");
  for (const char* fine : {"localhost", "127.0.0.1", "::1"}) find_from(0, 1, fine);
}

TEST(StoreEnvironment, ATokenFileIsItsOwnersAlone) {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("token"), token = make_store_token();
  EXPECT_EQ(token.size(), 64u);
  EXPECT_NE(token, make_store_token());
  write_store_token(path, token);
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(outcome_of([&] { write_store_token(path, token); }).code, ExitCode::kStorage);
  const Variables file = place({{"RECOLLECT_STORE_TOKEN_FILE", path}});
  EXPECT_EQ(find(file).token, token);
  EXPECT_EQ(find(place({{"RECOLLECT_STORE_TOKEN", "abc"}})).token, "abc");
  const auto refused = [&](const Variables& variables, const std::string& text) {
    const Outcome outcome = outcome_of([&] { find(variables); });
    expect(outcome, ExitCode::kConfiguration, {text});
    EXPECT_EQ(outcome.message.find(token), std::string::npos) << "the secret is shown: " << outcome.message;
  };
  refused(place({{"RECOLLECT_STORE_TOKEN_FILE", path}, {"RECOLLECT_STORE_TOKEN", "abc"}}),
          "different tokens");
  for (const mode_t mode : {0640, 0604, 0660, 0622}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    refused(file, "is open to other users");
  }
  ASSERT_EQ(::chmod(path.c_str(), 0400), 0);
  EXPECT_EQ(find(file).token, token);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
    refused(file, "belongs to another user");
  }
  refused(place({{"RECOLLECT_STORE_TOKEN_FILE", folder.file("none")}}), "No such file");
  refused(place({{"RECOLLECT_STORE_TOKEN_FILE", folder.path()}}), "no regular file");
  write_store_token(folder.file("empty"), "");
  refused(place({{"RECOLLECT_STORE_TOKEN_FILE", folder.file("empty")}}), "is empty");
  write_store_token(folder.file("large"), std::string(5000, 'x'));
  refused(place({{"RECOLLECT_STORE_TOKEN_FILE", folder.file("large")}}), "more than 4096 bytes");
}

}  // namespace
}  // namespace recollect
