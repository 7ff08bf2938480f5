// What a call is and the first of its data travel together over TCP: nobody waits for the others' calls before its own
// data is on the way. The other rank of these groups is the test itself, at the other end of the socket.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <future>
#include <vector>

#include "comm/tcp/tcp_communicator.h"
#include "engine/core/error.h"

namespace recollect::tcp {
namespace {

using namespace std::chrono_literals;

constexpr auto kLong = 20s;
constexpr int64_t kElements = 1024;  // of a rank's part

Address loopback() {
  std::string problem;
  return resolve("127.0.0.1", 0, problem).front();
}

// Rank 0 of two is a communicator, rank 1 the other end of its socket.
class JoinedMessages : public ::testing::Test {
 protected:
  JoinedMessages() {
    int error = 0;
    const Socket listener = listen_on(loopback(), error);
    std::vector<Socket> sockets(2);
    sockets[1] = connect_to(Address::of_this_end(listener), Clock::now() + kLong, error);
    pollfd file{listener.descriptor(), POLLIN, 0};
    wait_for({&file, 1}, Clock::now() + kLong);
    other_end_ = accept_from(listener, error);
    auto peers =
        std::make_shared<Peers>(0, std::vector(2, loopback()), listen_on(loopback(), error), "secret", kLong);
    communicator_ =
        std::make_unique<TcpCommunicator>(std::move(peers), std::vector{0, 1}, std::move(sockets));
    for (int64_t i = 0; i < 2 * kElements; ++i) whole_[i] = static_cast<float>(i);
  }

  // What the communicator has sent without a word from here.
  std::vector<float> heard(CollectiveCall& call, int64_t elements) {
    std::vector<float> data(static_cast<std::size_t>(elements));
    const auto deadline = Clock::now() + kLong;
    EXPECT_EQ(receive_all(other_end_, &call, sizeof call, deadline), Transfer::kDone);
    EXPECT_EQ(receive_all(other_end_, data.data(), data.size() * sizeof(float), deadline), Transfer::kDone);
    return data;
  }
  void say(CollectiveCall call, std::vector<float> data) {
    std::array<iovec, 2> parts{{{&call, sizeof call}, {data.data(), data.size() * sizeof(float)}}};
    EXPECT_EQ(send_some(other_end_, parts).bytes, parts[0].iov_len + parts[1].iov_len);
  }
  static std::vector<float> counted(int64_t first, int64_t elements) {
    std::vector<float> values(static_cast<std::size_t>(elements));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(first) + static_cast<float>(i);
    return values;
  }
  Tensor whole() { return {whole_.data(), {2 * kElements}, DType::kF32}; }
  Tensor part() { return {part_.data(), {kElements}, DType::kF32}; }

  std::vector<float> whole_ = std::vector<float>(2 * kElements), part_ = counted(0, kElements);
  Socket other_end_;
  std::unique_ptr<Communicator> communicator_;
};

TEST_F(JoinedMessages, APartIsGatheredBeforeTheOthersHaveCome) {
  auto call = std::async(std::launch::async, [&] { communicator_->all_gather(part(), whole()); });
  CollectiveCall theirs;
  EXPECT_EQ(heard(theirs, kElements), counted(0, kElements));
  EXPECT_EQ(theirs.to_string(), "all_gather #1 (f32, 4096 bytes)");
  say(theirs, counted(kElements, kElements));
  call.get();
  EXPECT_EQ(whole_, counted(0, 2 * kElements));
}

TEST_F(JoinedMessages, APartIsScatteredBeforeTheOthersHaveCome) {
  auto call = std::async(std::launch::async, [&] { communicator_->reduce_scatter(whole(), part()); });
  CollectiveCall theirs;
  EXPECT_EQ(heard(theirs, kElements), counted(kElements, kElements));
  say(theirs, std::vector<float>(kElements, 1.0f));
  call.get();
  EXPECT_EQ(part_, counted(1, kElements));
}

TEST_F(JoinedMessages, AShortTensorIsReducedAndBroadcastBeforeTheOthersHaveCome) {
  auto call = std::async(std::launch::async, [&] {
    communicator_->all_reduce(part(), ReduceOp::kSum);
    communicator_->broadcast(part(), 0);
  });
  CollectiveCall theirs;
  EXPECT_EQ(heard(theirs, kElements), counted(0, kElements));
  say(theirs, std::vector<float>(kElements, 1.0f));
  EXPECT_EQ(heard(theirs, kElements), counted(1, kElements));
  EXPECT_EQ(theirs.to_string(), "broadcast #2 (from rank 0, f32, 4096 bytes)");
  say(theirs, {});
  call.get();
}

// Data that comes with another call is neither waited for nor left in the socket, whose end would be a reset.
TEST_F(JoinedMessages, AnotherCallsDataIsDropped) {
  auto call = std::async(std::launch::async, [&] { communicator_->all_gather(part(), whole()); });
  CollectiveCall theirs;
  heard(theirs, kElements);
  say({.sequence = 1, .bytes = 16 * kElements, .kind = CollectiveKind::kReduceScatter, .dtype = DType::kF32},
      counted(0, 2 * kElements));
  try {
    call.get();
    FAIL() << "different calls agree";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRanksDisagree) << error.what();
  }
  communicator_.reset();
  std::byte more;
  pollfd file{other_end_.descriptor(), POLLIN, 0};
  ASSERT_TRUE(wait_for({&file, 1}, Clock::now() + kLong));
  const Moved end = receive_some(other_end_, &more, 1);
  EXPECT_TRUE(end.closed);
  EXPECT_EQ(end.error, 0) << error_text(end.error);
}

}  // namespace
}  // namespace recollect::tcp
