// Whatever comes to a store's port, from strangers and from clients that break the rules, is dropped within
// bounded time and memory, and an honest client goes on as if nothing were there.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <deque>
#include <random>
#include <thread>

#include "comm/store/client.h"
#include "comm/store/server.h"
#include "comm/tcp/handshake.h"
#include "engine/core/error.h"

namespace recollect {
namespace {

using namespace std::chrono_literals;
using store::Operation;
using store::Request;
using tcp::Clock;
using tcp::Socket;
using tcp::Transfer;

constexpr auto kLimit = 60s;  // nobody waits for it to pass

class StoreAbuse : public ::testing::Test {
 protected:
  static StoreLimits limits() {
    return {.visitors = 32, .moving_bytes = 8 << 20, .handshake = 300ms, .frame = 300ms};
  }

  Socket connect() const { return connect(server_); }
  static Socket connect(const StoreServer& server) {
    std::string problem;
    int error = 0;
    const auto address = tcp::resolve("127.0.0.1", server.port(), problem).front();
    Socket socket = tcp::connect_to(address, Clock::now() + kLimit, error);
    EXPECT_TRUE(socket) << tcp::error_text(error);
    return socket;
  }
  // Someone who knows the token and may still break the rules.
  Socket enter() const { return enter(server_); }
  static Socket enter(const StoreServer& server) {
    Socket socket = connect(server);
    const auto met =
        tcp::introduce(socket, "secret", to_bytes(store::Identity{5, "run"}), Clock::now() + kLimit);
    EXPECT_EQ(met.outcome, tcp::Introduction::Outcome::kWelcome) << met.text;
    return socket;
  }
  static void send(const Socket& socket, const std::string& bytes) {
    tcp::send_all(socket, bytes.data(), bytes.size(), Clock::now() + kLimit);
  }
  static std::string frame(const std::string& body) { return store::length_prefix(body.size()) + body; }
  // Reads what there is until the server hangs up.
  static void expect_dropped(const Socket& socket) {
    char byte;
    const auto deadline = Clock::now() + kLimit;
    Transfer transfer = Transfer::kDone;
    while (transfer == Transfer::kDone) transfer = tcp::receive_all(socket, &byte, 1, deadline);
    EXPECT_EQ(transfer, Transfer::kClosed) << "the server keeps this connection";
  }
  void expect_works() {
    client_.set("n", "1");
    EXPECT_EQ(client_.add("n", 1), 2);
    StoreClient(StorePlace{"127.0.0.1", {server_.port()}}, "secret", "run", 2, kLimit).get("n", kLimit);
  }

  std::mt19937 random_{7};
  std::string random_bytes(std::size_t most) {
    std::string bytes(random_() % (most + 1), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random_());
    return bytes;
  }

  const StoreServer server_{StoreOptions{.run_id = "run", .token = "secret", .limits = limits()}};
  StoreClient client_{StorePlace{"127.0.0.1", {server_.port()}}, "secret", "run", 1, kLimit};
};

TEST_F(StoreAbuse, RandomBytesInsteadOfAHandshake) {
  for (int i = 0; i < 200; ++i) {
    const Socket socket = connect();
    send(socket, "\1" + random_bytes(3000));
    expect_dropped(socket);
  }
  expect_works();
}

TEST_F(StoreAbuse, HandshakesThatGoWrong) {
  const std::string magic(tcp::kMagic);
  tcp::Hello hello{.nonce = tcp::make_nonce(), .code = {}, .identity = to_bytes(store::Identity{0, "run"})};
  const std::string unsigned_hello = hello.to_bytes();
  std::string too_long = unsigned_hello.substr(0, tcp::Hello::kHeadBytes);
  too_long[tcp::Hello::kHeadBytes - 1] = '\xff';
  for (const std::string& bytes : {std::string("GET / HTTP/1.1\r\n\r\n"), magic.substr(0, 7) + "X",
                                   unsigned_hello, unsigned_hello + random_bytes(100000), too_long}) {
    const Socket socket = connect();
    send(socket, bytes);
    expect_dropped(socket);
  }
  for (const std::string& identity :
       {std::string(), std::string("peer 0 1"), std::string("store"), std::string("store x run"),
        std::string("store 99999999999 run"), std::string("store -2 run"),
        std::string("store 1 ") + std::string(400, 'r')}) {
    const Socket socket = connect();
    const auto met = tcp::introduce(socket, "secret", identity, Clock::now() + kLimit);
    EXPECT_EQ(met.outcome, tcp::Introduction::Outcome::kRefused) << identity;
    expect_dropped(socket);
  }
  expect_works();
}

// An old conversation opens nothing: the server's number is another one each time.
TEST_F(StoreAbuse, AHandshakeThatWasOverheardIsOfNoUse) {
  std::string overheard;
  for (int i = 0; i < 2; ++i) {
    const Socket socket = connect();
    char greeting[tcp::Greeting::kBytes];
    ASSERT_EQ(tcp::receive_all(socket, greeting, sizeof greeting, Clock::now() + kLimit), Transfer::kDone);
    if (i == 0) {
      tcp::Hello hello{
          .nonce = tcp::make_nonce(), .code = {}, .identity = to_bytes(store::Identity{0, "run"})};
      const std::string listener(greeting + tcp::kMagic.size(), sizeof(tcp::Nonce));
      const std::string caller(reinterpret_cast<const char*>(hello.nonce.data()), hello.nonce.size());
      hello.code = tcp::code_of("secret", "caller" + listener + caller + hello.identity);
      overheard = hello.to_bytes();
    }
    send(socket, overheard);
    char verdict = -1;
    ASSERT_EQ(tcp::receive_all(socket, &verdict, 1, Clock::now() + kLimit), Transfer::kDone);
    EXPECT_EQ(verdict, static_cast<char>(i == 0 ? tcp::Verdict::kWelcome : tcp::Verdict::kWrongSecret));
  }
}

TEST_F(StoreAbuse, TheSilentAndTheSlowAreDroppedInTime) {
  const auto start = Clock::now();
  const Socket silent = connect();
  const Socket dripping = connect();
  std::jthread drip([&] {
    for (const char byte : std::string(tcp::kMagic) + std::string(100, 'x')) {
      if (tcp::send_some(dripping, &byte, 1).closed) return;
      std::this_thread::sleep_for(20ms);
    }
  });
  const Socket half_a_frame = enter();
  send(half_a_frame, frame(std::string(1000, '\1')).substr(0, 500));
  const Socket half_a_length = enter();
  send(half_a_length, "\5");
  for (const Socket* socket : {&silent, &dripping, &half_a_frame, &half_a_length}) expect_dropped(*socket);
  EXPECT_LT(Clock::now() - start, 20s);
  expect_works();
}

TEST_F(StoreAbuse, WhoDoesNotReadRepliesIsDropped) {
  client_.set("large", std::string(store::kLongestValue, 'x'));
  const Socket socket = enter();
  const std::string get =
      frame(to_bytes(Request{.operation = Operation::kGet, .timeout = 1s, .keys = {"large"}}));
  const auto deadline = Clock::now() + kLimit;
  while (!tcp::send_some(socket, get.data(), get.size()).closed && Clock::now() < deadline)
    std::this_thread::sleep_for(1ms);
  EXPECT_LT(Clock::now(), deadline);
  expect_works();
}

TEST_F(StoreAbuse, FramesThatBreakTheRules) {
  const std::string set = to_bytes(Request{.operation = Operation::kSet, .keys = {"k"}, .value = "v"});
  const std::string add = to_bytes(Request{.operation = Operation::kAdd, .keys = {"k"}, .number = 1});
  std::string long_key = set;
  long_key[5] = '\xff', long_key[6] = '\xff';
  for (const std::string& bytes :
       {std::string("\xff\xff\xff\xff", 4), std::string("\0\0\0\0", 4), frame(""),
        frame("\x63" + set.substr(1)), frame(std::string(1, '\0') + set.substr(1)), frame(add + "x"),
        frame(add.substr(0, add.size() - 1)), frame(set.substr(0, 6)),
        frame(long_key + std::string(70000, 'k')), store::length_prefix(store::kLongestRequest + 1)}) {
    const Socket socket = enter();
    send(socket, bytes);
    expect_dropped(socket);
  }
  expect_works();
}

// Requests of every kind with bytes changed, cut and added: each is answered or its connection dropped.
TEST_F(StoreAbuse, DamagedRequests) {
  const std::vector<Request> requests = {
      {.operation = Operation::kSet, .keys = {"key"}, .value = "value"},
      {.operation = Operation::kGet, .keys = {"key"}},
      {.operation = Operation::kAdd, .keys = {"number"}, .number = 3},
      {.operation = Operation::kWait, .keys = {"key", "number", "none"}},
      {.operation = Operation::kErase, .keys = {"key"}},
      {.operation = Operation::kBarrier, .keys = {"barrier"}, .number = 2}};
  Socket socket = enter();
  int answered = 0, dropped = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string body = to_bytes(requests[random_() % requests.size()]);
    for (unsigned changes = random_() % 4; changes > 0 && !body.empty(); --changes) {
      // Not the timeout: waiting for days is within the rules.
      const std::size_t at = random_() % body.size();
      if (at < 1 || at > 4) body[at] = static_cast<char>(random_());
    }
    if (random_() % 4 == 0) body = body.substr(0, random_() % (body.size() + 1));
    if (random_() % 8 == 0) body += random_bytes(20);
    send(socket, frame(body));
    char prefix[store::kLengthBytes];
    if (tcp::receive_all(socket, prefix, sizeof prefix, Clock::now() + kLimit) == Transfer::kDone) {
      std::string reply(store::parse_length(prefix), '\0');
      ASSERT_LE(reply.size(), store::kLongestReply);
      ASSERT_EQ(tcp::receive_all(socket, reply.data(), reply.size(), Clock::now() + kLimit), Transfer::kDone);
      ++answered;
    } else {
      socket = enter();
      ++dropped;
    }
  }
  EXPECT_GT(answered, 300);
  EXPECT_GT(dropped, 300);
  expect_works();
}

TEST_F(StoreAbuse, ManyConnectionsLeaveRoomForTheHonest) {
  std::deque<Socket> sockets;
  for (int i = 0; i < 400; ++i) {
    sockets.push_back(connect());
    if (i % 100 == 50) expect_works();
  }
  expect_works();
  for (std::size_t i = 0; i < sockets.size(); ++i) expect_dropped(sockets[i]);
}

// Requests of a megabyte that never end: all but as many as the store has room for are dropped at once, and
// small requests always have room.
TEST_F(StoreAbuse, HugeRequestsThatNeverEndTakeBoundedMemory) {
  StoreLimits patient = limits();
  patient.frame = kLimit;
  const StoreServer server(StoreOptions{.run_id = "run", .token = "secret", .limits = patient});
  const auto alive = [](const Socket& socket) {
    char byte;
    return !tcp::receive_some(socket, &byte, 1).closed;
  };
  StoreClient honest(StorePlace{"127.0.0.1", {server.port()}}, "secret", "run", 1, kLimit);
  const std::string most = frame(std::string(store::kLongestValue, '\1')).substr(0, store::kLongestValue);
  const int fit = static_cast<int>(patient.moving_bytes / most.size());
  std::vector<Socket> sockets;
  for (int i = 0; i < 4 * fit; ++i) {
    sockets.push_back(enter(server));
    send(sockets.back(), most);
    honest.set("i", std::to_string(i));
  }
  const auto deadline = Clock::now() + kLimit;
  std::ptrdiff_t left = 4 * fit;
  while (left > fit && Clock::now() < deadline) {
    left = std::count_if(sockets.begin(), sockets.end(), alive);
    honest.add("n", 1);
  }
  EXPECT_LE(left, fit);
  EXPECT_GT(left, 0) << "nobody is dropped while there is room";
}

// Descriptors run out while strangers hold them: they go, the honest stay.
TEST_F(StoreAbuse, DescriptorsRunOut) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = connect().descriptor();
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(next) + 30;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  std::deque<Socket> sockets;
  int error = 0;
  std::string problem;
  const auto address = tcp::resolve("127.0.0.1", server_.port(), problem).front();
  while (true) {
    Socket socket = tcp::connect_to(address, Clock::now() + kLimit, error);
    if (!socket) break;
    sockets.push_back(std::move(socket));
  }
  EXPECT_EQ(error, EMFILE);
  for (int i = 0; i < 3 && !sockets.empty(); ++i) sockets.pop_front();
  client_.set("n", "1");
  EXPECT_EQ(client_.add("n", 1), 2);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  expect_works();
}

TEST_F(StoreAbuse, NoMoreConnectionsThanAllowed) {
  StoreLimits few = limits();
  few.connections = 5;
  few.handshake = 5s;
  const StoreServer server(StoreOptions{.run_id = "run", .token = "secret", .limits = few});
  const StorePlace place{"127.0.0.1", {server.port()}};
  std::deque<std::unique_ptr<StoreClient>> inside;
  for (int rank = 0; rank < 5; ++rank)
    inside.push_back(std::make_unique<StoreClient>(place, "secret", "run", rank, kLimit));
  EXPECT_THROW(StoreClient(place, "secret", "run", 5, 200ms), Error);
  inside.pop_front();
  StoreClient(place, "secret", "run", 5, kLimit).set("room", "again");
}

}  // namespace
}  // namespace recollect
