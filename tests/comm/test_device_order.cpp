// The waits between the streams of rank threads that share a device are enough, and none of them is idle: a
// model of streams and events knows which op is bound to come before which, and finds two ops on one piece of
// memory that nothing orders as soon as any single wait is left out. Nothing is executed, so no timing can
// hide anything.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "comm/device_local/device_local_communicator.h"
#include "tests/comm/ranks.h"

namespace recollect {
namespace {

using namespace test;

// By stream: how many of its ops are bound to be over.
using VectorClock = std::map<const void*, int64_t>;

class Order {
 public:
  void access(const void* stream, const void* data, std::size_t bytes, bool writes) {
    std::lock_guard lock(mutex_);
    VectorClock& now = streams_[stream];
    const auto* begin = static_cast<const std::byte*>(data);
    const Access mine{begin, begin + bytes, writes, stream, ++now[stream]};
    for (const Access& other : accesses_) {
      const bool touches = mine.begin < other.end && other.begin < mine.end;
      if (touches && (mine.writes || other.writes) && other.number > now[other.stream]) ++conflicts_;
    }
    accesses_.push_back(mine);
  }
  void record(const void* event, const void* stream) {
    std::lock_guard lock(mutex_);
    events_[event] = streams_[stream];
  }
  void wait(const void* stream, const void* event) {
    std::lock_guard lock(mutex_);
    VectorClock& now = streams_[stream];
    for (const auto& [other, number] : events_[event]) now[other] = std::max(now[other], number);
  }
  int conflicts() const { return conflicts_; }

 private:
  struct Access {
    const std::byte *begin, *end;
    bool writes;
    const void* stream;
    int64_t number;
  };
  std::mutex mutex_;
  std::map<const void*, VectorClock> streams_, events_;
  std::vector<Access> accesses_;
  int conflicts_ = 0;
};

constexpr int kNone = -1;

// One rank's view of the model; the wait of number `left_out` is not made.
class OrderRuntime final : public device::DeviceRuntime {
 public:
  OrderRuntime(Order& order, int left_out) : order_(order), left_out_(left_out) {}

  int waits() const { return waits_; }

  void make_current() override {}
  std::string hardware_id() const override { return "a model"; }
  std::size_t free_bytes() const override { return 0; }
  void* make_event() override { return new char; }
  void destroy_event(void* event) noexcept override { delete static_cast<char*>(event); }
  void record(void* event, void* stream) override { order_.record(event, stream); }
  void wait(void* stream, void* event) override {
    if (waits_++ != left_out_) order_.wait(stream, event);
  }
  void copy(void* to, const void* from, std::size_t bytes, void* stream) override {
    order_.access(stream, from, bytes, false);
    order_.access(stream, to, bytes, true);
  }
  void reduce(DType dtype, ReduceOp, const void* const* parts, int count, void* out, int64_t elements,
              void* stream) override {
    const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(dtype);
    for (int p = 0; p < count; ++p) order_.access(stream, parts[p], bytes, false);
    order_.access(stream, out, bytes, true);
  }
  std::shared_ptr<uint32_t> make_words(std::size_t) override { return nullptr; }
  void write_word(uint32_t*, uint32_t, void*) override {}
  uint64_t capture_of(void*) const override { return 0; }
  bool is_shareable(const void*) const override { return false; }

 private:
  Order& order_;
  const int left_out_;
  int waits_ = 0;
};

// Every collective between ops that write what it reads and what it writes, as a program would have them.
void run_program(Communicator& c, Order& order) {
  constexpr int64_t kCount = 1021;
  std::vector<float> x(kCount), all(static_cast<std::size_t>(kCount * c.size())), part(kCount);
  const Tensor tx{x.data(), {kCount}, DType::kF32}, tall{all.data(), {kCount * c.size()}, DType::kF32},
      tpart{part.data(), {kCount}, DType::kF32};
  char stream = 0;
  const auto write = [&](const Tensor& tensor) { order.access(&stream, tensor.data, tensor.bytes(), true); };
  const auto write_all = [&] {
    for (const Tensor& tensor : {tx, tall, tpart}) write(tensor);
  };
  write_all();
  c.all_reduce(tx, ReduceOp::kSum, &stream);
  write_all();
  c.all_gather(tx, tall, &stream);
  write_all();
  c.reduce_scatter(tall, tpart, &stream);
  write_all();
  c.broadcast(tpart, 1, &stream);
  write_all();
  c.all_reduce(tx, ReduceOp::kSum, &stream);
  write_all();
  c.exchange(tx, (c.rank() + 1) % c.size(), tpart, (c.rank() + c.size() - 1) % c.size(), &stream);
  write_all();
  if (c.rank() == 0) c.send(tx, 1, &stream);
  if (c.rank() == 1) c.receive(tpart, 0, &stream);
  write_all();
}

struct Outlook {
  int conflicts = 0;
  std::vector<int> waits;
};

Outlook run_without(int ranks, int rank, int wait) {
  Order order;
  Outlook run{0, std::vector<int>(static_cast<std::size_t>(ranks))};
  expect_fine(run_as_threads(ranks, [&](Communicator& world) {
    const auto runtime = std::make_shared<OrderRuntime>(order, world.rank() == rank ? wait : kNone);
    const auto c = device_local::join_device_local_world(runtime, world);
    run_program(*c, order);
    run.waits[static_cast<std::size_t>(world.rank())] = runtime->waits();
    world.barrier();  // memory of a rank that returns might be given to another one
  }));
  run.conflicts = order.conflicts();
  return run;
}

TEST(DeviceOrder, EveryWaitIsNeededAndNoneIsMissing) {
  for (const int ranks : {2, 3}) {
    const Outlook whole = run_without(ranks, kNone, kNone);
    EXPECT_EQ(whole.conflicts, 0) << ranks << " ranks";
    for (int rank = 0; rank < ranks; ++rank) {
      const int waits = whole.waits[static_cast<std::size_t>(rank)];
      EXPECT_GT(waits, 10);
      for (int wait = 0; wait < waits; ++wait)
        EXPECT_GT(run_without(ranks, rank, wait).conflicts, 0)
            << "wait " << wait << " of rank " << rank << " of " << ranks;
    }
  }
}

}  // namespace
}  // namespace recollect
