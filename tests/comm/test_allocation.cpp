// Collectives allocate nothing: all memory is taken when a group is made.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include "comm/local.h"
#include "tests/comm/ranks.h"

namespace {

std::atomic<int64_t>& allocations() {
  static std::atomic<int64_t> count{0};
  return count;
}

}  // namespace

// Not inlined: the compiler would take free for a mismatch with new.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  allocations().fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace recollect {
namespace {

void every_collective(Communicator& c, std::vector<float>& in, std::vector<float>& out) {
  const auto n = static_cast<int64_t>(in.size());
  const Tensor part{in.data(), {n}, DType::kF32}, whole{out.data(), {n * c.size()}, DType::kF32};
  c.all_reduce(part, ReduceOp::kSum);
  c.all_reduce({in.data(), {1}, DType::kF32}, ReduceOp::kMax);
  c.all_gather(part, whole);
  c.reduce_scatter(whole, part);
  c.broadcast(part, 1);
  c.barrier();
  const int next = (c.rank() + 1) % c.size(), before = (c.rank() + c.size() - 1) % c.size();
  c.exchange(part, next, {out.data(), {n}, DType::kF32}, before);
  if (c.rank() == 0) c.send(part, 1);
  if (c.rank() == 1) c.receive(part, 0);
}

void expect_no_allocations(Communicator& c, std::atomic<int64_t>& before) {
  std::vector<float> in(300007, 1.0f), out(3 * in.size(), 1.0f);
  every_collective(c, in, out);
  if (c.rank() == 0) before = allocations().load();
  c.barrier();
  for (int i = 0; i < 3; ++i) {
    if (c.rank() == i) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    every_collective(c, in, out);
  }
  if (c.rank() == 0) {
    EXPECT_EQ(allocations() - before, 0);
  }
  c.barrier();
}

TEST(Allocation, NoneInCollectivesNotEvenWhenWaitingLong) {
  for (const auto run : {test::run_as_threads, test::run_over_tcp_as_threads}) {
    std::atomic<int64_t> before = 0;
    test::expect_fine(run(
        3, [&](Communicator& c) { expect_no_allocations(c, before); }, std::chrono::seconds(60),
        kDefaultChunkBytes));
  }
}

}  // namespace
}  // namespace recollect
