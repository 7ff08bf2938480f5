// Rank threads that share a device: every collective is right to the bit whatever the streams' timing, and no
// rank's failure leaves the others waiting.
#include <gtest/gtest.h>

#include <thread>

#include "comm/device_local/device_local_communicator.h"
#include "comm/planned.h"
#include "tests/comm/device_checks.h"
#include "tests/comm/device_streams.h"
#include "tests/comm/ranks.h"

namespace recollect {
namespace {

using namespace std::chrono_literals;
using namespace test;
using device_local::join_device_local_world;

std::shared_ptr<WorkerRuntime> a_device() { return std::make_shared<WorkerRuntime>("the only GPU"); }
uint32_t seed_of(const Communicator& c) { return static_cast<uint32_t>(c.rank()); }

class DeviceLocal : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, DeviceLocal, ::testing::Values(2, 3, 4, 7));

TEST_P(DeviceLocal, GetsEveryCollectiveRight) {
  expect_fine(run_as_threads(GetParam(), [](Communicator& world) {
    const auto c = join_device_local_world(a_device(), world);
    EXPECT_EQ(c->name(), "device-local");
    EXPECT_FALSE(c->capturable());
    EXPECT_EQ(c->staging_bytes(), 0u);
    check_on_stream(*c, {0, 1, 7, 61, 1021, 10007});
  }));
}

TEST_P(DeviceLocal, PassesEveryTensorRight) {
  expect_fine(run_as_threads(GetParam(), [](Communicator& world) {
    const auto c = join_device_local_world(a_device(), world);
    check_passing_on_stream(*c, {0, 61, 10007});
    const auto alone = c->split(c->rank());
    check_passing_on_stream(*alone, {0, 61});
  }));
}

// A receiver that goes on to other senders does not hold up the first one: 0 passes to 1 and, when that is
// done, to 2, which passes it on to 1.
TEST(DeviceLocalPassing, LaterTensorsDoNotHoldUpEarlierOnes) {
  expect_fine(run_as_threads(3, [](Communicator& world) {
    const auto c = join_device_local_world(a_device(), world);
    WorkerStream stream(seed_of(*c));
    std::vector<float> values(1021, c->rank() == 0 ? 5.0f : 0.0f);
    const Tensor tensor{values.data(), {1021}, DType::kF32};
    for (int i = 0; i < 20; ++i) {
      if (c->rank() == 0) c->send(tensor, 1, &stream);
      if (c->rank() == 1) c->receive(tensor, 0, &stream);
      if (c->rank() == 0) c->send(tensor, 2, &stream);
      if (c->rank() == 2) c->receive(tensor, 0, &stream);
      if (c->rank() == 2) c->send(tensor, 1, &stream);
      if (c->rank() == 1) c->receive(tensor, 2, &stream);
    }
    stream.synchronize();
    EXPECT_EQ(values, std::vector<float>(1021, 5.0f));
  }));
}

TEST(DeviceLocalPassing, OtherSizesAreToldToBoth) {
  const auto outcomes = run_as_threads(3, [](Communicator& world) {
    const auto c = join_device_local_world(a_device(), world);
    WorkerStream stream(seed_of(*c));
    float values[4] = {};
    if (c->rank() == 0) c->send({values, {3}, DType::kF32}, 2, &stream);
    if (c->rank() == 2) c->receive({values, {4}, DType::kF32}, 0, &stream);
  });
  expect_each(
      outcomes, {0, 2}, ExitCode::kRanksDisagree,
      {"rank 0: send #1 to rank 2 (f32, 12 bytes)", "rank 2: receive #1 from rank 0 (f32, 16 bytes)"});
  expect_each(outcomes, {1}, ExitCode::kOk, {});
}

TEST(DeviceLocalPassing, WhoDoesNotComeIsNamed) {
  const auto outcomes = run_as_threads(
      2,
      [](Communicator& world) {
        const auto c = join_device_local_world(a_device(), world);
        WorkerStream stream(seed_of(*c));
        float values[4] = {};
        if (c->rank() == 0) c->send({values, {4}, DType::kF32}, 1, &stream);
        while (!world.stop_reason()) std::this_thread::sleep_for(1ms);
      },
      300ms);
  expect_each(outcomes, {0}, ExitCode::kPeerLost,
              {"send #1 to rank 1 (f32, 16 bytes) on device memory", "rank 1 did not come within 300 ms"});
}

TEST_P(DeviceLocal, Splits) {
  expect_fine(run_as_threads(GetParam(), [](Communicator& world) {
    const auto c = join_device_local_world(a_device(), world);
    const auto rows = c->split(c->rank() / 2), columns = c->split(c->rank() % 2);
    EXPECT_EQ(rows->rank(), c->rank() % 2);
    EXPECT_EQ(columns->rank(), c->rank() / 2);
    EXPECT_EQ(rows->name(), rows->size() == 1 ? "self" : "device-local");
    check_on_stream(*rows, {1, 1021});
    check_on_stream(*columns, {1, 1021});
    check_on_stream(*c, {61});
  }));
}

// Everything is enqueued before anything is waited for. A stream's ops before and after a collective write
// what the other ranks read in it: whoever comes too early reads the wrong generation of it, and
// ThreadSanitizer sees a race.
void train_without_looking(Communicator& c, int steps) {
  constexpr int64_t kCount = 2053;
  const auto size = static_cast<int64_t>(c.size());
  std::vector<float> x(kCount), all(kCount * c.size()), part(kCount), from_root(kCount);
  std::vector<std::vector<float>> seen;
  const Tensor tx{x.data(), {kCount}, DType::kF32}, tall{all.data(), {kCount * size}, DType::kF32},
      tpart{part.data(), {kCount}, DType::kF32}, troot{from_root.data(), {kCount}, DType::kF32};
  WorkerStream stream(seed_of(c));
  for (int step = 0; step < steps; ++step) {
    stream.enqueue([&, step] { std::fill(x.begin(), x.end(), static_cast<float>(c.rank() + step)); });
    c.all_reduce(tx, ReduceOp::kSum, &stream);
    c.all_gather(tx, tall, &stream);
    stream.enqueue([&] { std::fill(x.begin(), x.end(), -1.0f); });
    c.reduce_scatter(tall, tpart, &stream);
    stream.enqueue([&] {
      std::fill(all.begin(), all.end(), -2.0f);
      from_root = part;
      if (c.rank() == c.size() - 1) std::fill(from_root.begin(), from_root.end(), part[0] + 1);
    });
    c.broadcast(troot, c.size() - 1, &stream);
    // Once round the ring, through the others' hands.
    for (int hop = 0; hop < c.size(); ++hop) {
      stream.enqueue([&] { part = from_root; });
      c.exchange(tpart, (c.rank() + 1) % c.size(), troot, (c.rank() + c.size() - 1) % c.size(), &stream);
      stream.enqueue([&] { std::fill(part.begin(), part.end(), -4.0f); });
    }
    stream.enqueue([&] {
      seen.push_back(from_root);
      std::fill(from_root.begin(), from_root.end(), -3.0f);
    });
  }
  stream.synchronize();
  for (int step = 0; step < steps; ++step) {
    const auto sum = static_cast<float>(size * step + size * (size - 1) / 2);
    EXPECT_EQ(seen[static_cast<std::size_t>(step)],
              std::vector<float>(kCount, sum * static_cast<float>(size) + 1));
  }
}

TEST_P(DeviceLocal, OrdersStreamsWithoutTheHost) {
  expect_fine(run_as_threads(GetParam(), [](Communicator& world) {
    const auto c = join_device_local_world(a_device(), world);
    train_without_looking(*c, 10);
  }));
}

// As the executor does: groups of the same ranks, each on a stream of its own, called by one thread.
TEST_P(DeviceLocal, GroupsOnSeveralStreamsDoNotMix) {
  expect_fine(run_as_threads(GetParam(), [](Communicator& world) {
    const auto c = join_device_local_world(a_device(), world), other = c->split(0);
    std::vector<float> a(1021), b(1021);
    WorkerStream compute(seed_of(*c)), communication(seed_of(*c) + 100);
    const Tensor ta{a.data(), {1021}, DType::kF32}, tb{b.data(), {1021}, DType::kF32};
    for (int i = 0; i < 10; ++i) {
      compute.enqueue([&] { std::fill(a.begin(), a.end(), 1.0f); });
      communication.enqueue([&] { std::fill(b.begin(), b.end(), 2.0f); });
      c->all_reduce(ta, ReduceOp::kSum, &compute);
      other->all_reduce(tb, ReduceOp::kSum, &communication);
    }
    compute.synchronize();
    communication.synchronize();
    EXPECT_EQ(a, std::vector<float>(1021, static_cast<float>(c->size())));
    EXPECT_EQ(b, std::vector<float>(1021, static_cast<float>(2 * c->size())));
  }));
}

TEST(DeviceLocalBits, AreThoseOfTheCpu) {
  std::vector<bf16> results[2];
  for (const bool on_device : {false, true})
    expect_fine(run_as_threads(4, [&](Communicator& world) {
      auto values = inputs<bf16>(Data::kRandom, world.rank(), 0, 50021);
      const Tensor tensor{values.data(), {50021}, DType::kBF16};
      WorkerStream stream(seed_of(world));
      if (on_device) {
        join_device_local_world(a_device(), world)->all_reduce(tensor, ReduceOp::kSum, &stream);
      } else {
        world.all_reduce(tensor, ReduceOp::kSum);
      }
      stream.synchronize();
      if (world.rank() == 2) results[on_device] = values;
    }));
  ASSERT_EQ(results[0].size(), 50021u);
  EXPECT_EQ(0, std::memcmp(results[0].data(), results[1].data(), results[0].size() * sizeof(bf16)));
}

TEST(DeviceLocalFailure, DifferentCallsAreToldToAll) {
  const auto outcomes = run_as_threads(3, [](Communicator& world) {
    const auto c = join_device_local_world(a_device(), world);
    sum_on_stream(*c);
    sum_on_stream(*c, c->rank() == 1 ? 4 : 3);
  });
  expect_each(
      outcomes, {0, 1, 2}, ExitCode::kRanksDisagree,
      {"ranks 0, 2: all_reduce #2 (sum, f32, 12 bytes)", "rank 1: all_reduce #2 (sum, f32, 16 bytes)"});
}

TEST(DeviceLocalFailure, ARankThatDoesNotComeIsNamed) {
  std::atomic<int> told = 0;
  const auto outcomes = run_as_threads(
      3,
      [&](Communicator& world) {
        const auto c = join_device_local_world(a_device(), world);
        sum_on_stream(*c);
        while (c->rank() == 2 && told < 2) std::this_thread::sleep_for(1ms);
        try {
          sum_on_stream(*c);
        } catch (...) {
          ++told;
          throw;
        }
      },
      300ms);
  expect_each(outcomes, {0, 1}, ExitCode::kPeerLost,
              {"all_reduce #2 (sum, f32, 12 bytes) on device memory", "rank 2 did not come within 300 ms"});
  expect_each(outcomes, {2}, ExitCode::kPeerLost, {});
}

TEST(DeviceLocalFailure, AnAbortOrAnErrorStopsTheOthers) {
  for (const bool abort : {true, false}) {
    const auto outcomes = run_as_threads(3, [&](Communicator& world) {
      const auto c = join_device_local_world(a_device(), world);
      sum_on_stream(*c);
      if (c->rank() == 1 && abort) c->abort("the disk is full");
      if (c->rank() == 1) throw Error(ExitCode::kStorage, "the disk is full");
      sum_on_stream(*c);
    });
    expect_each(outcomes, {0, 2}, ExitCode::kPeerLost, {"rank 1"});
    expect_each(outcomes, {1}, ExitCode::kStorage, {});
  }
}

TEST(DeviceLocalFailure, TooManyRanksForOneDeviceAreRefused) {
  const auto world = make_planned_communicator(0, device_local::kMostRanks + 1, 0);
  try {
    join_device_local_world(a_device(), *world);
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kConfiguration) << error.what();
  }
}

}  // namespace
}  // namespace recollect
