#include "tests/gpu/emulation/grid.h"

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "tests/gpu/emulation/fiber.h"

namespace recollect::emulation {

namespace {

constexpr unsigned kLanes = 32;

struct Thread {
  enum State { kReady, kWaitsForWarp, kWaitsForBlock, kDone };

  State state = kReady;
  Where where;  // it waits
  std::unique_ptr<Fiber> fiber;
  unsigned exchanges = 0;
};

struct Warp {
  uint64_t slots[2][kLanes];  // by turns: whoever is late may still read the last ones
};

struct SharedVariable {
  const void* site;
  std::unique_ptr<std::byte[]> memory;
};

// What the calling thread's launches work with. Threads keep their stacks from launch to launch.
struct Machine {
  Order order = Order::kForward;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<SharedVariable> shared;
  std::vector<std::unique_ptr<Fiber>> idle;
  const std::function<void()>* kernel = nullptr;
  std::size_t dynamic_bytes = 0;
  unsigned running = 0;
};
thread_local Machine machine;

Dim3 at(unsigned index, Dim3 size) {
  return {index % size.x, index / size.x % size.y, index / size.x / size.y};
}

std::string text(Where where) { return std::string(where.file) + ":" + std::to_string(where.line); }

[[noreturn]] void fail(const std::string& what) {
  machine.threads.clear();  // fibers in mid-air, never to be resumed
  machine.idle.clear();
  throw Error(ExitCode::kInternal,
              "block (" + std::to_string(blockIdx.x) + ", " + std::to_string(blockIdx.y) + "): " + what);
}

// Calls f(i) for i < count, in the machine's order.
template <typename F>
void each(unsigned count, F f) {
  for (unsigned i = 0; i < count; ++i) f(machine.order == Order::kForward ? i : count - 1 - i);
}

void run_thread(unsigned index) {
  Thread& thread = machine.threads[index];
  machine.running = index;
  threadIdx = at(index, blockDim);
  if (!thread.fiber) {
    if (machine.idle.empty()) machine.idle.push_back(std::make_unique<Fiber>());
    thread.fiber = std::move(machine.idle.back());
    machine.idle.pop_back();
    thread.fiber->start([](void*) { (*machine.kernel)(); }, nullptr);
  }
  thread.fiber->resume();
  if (thread.fiber->ended()) {
    thread.state = Thread::kDone;
    machine.idle.push_back(std::move(thread.fiber));
  }
}

// Lets go of threads [first, last) if all of them wait as `state` says and at the same place; false if none
// waits so.
bool release(unsigned first, unsigned last, Thread::State state, const char* what) {
  unsigned waiting = 0;
  const Thread* one = nullptr;
  for (unsigned i = first; i < last; ++i) {
    const Thread& thread = machine.threads[i];
    if (thread.state != state) continue;
    if (one && (one->where.line != thread.where.line || std::strcmp(one->where.file, thread.where.file) != 0))
      fail(std::string("threads wait at two places, ") + text(one->where) + " and " + text(thread.where));
    one = &thread;
    ++waiting;
  }
  if (!one) return false;
  if (waiting < last - first)
    fail(std::to_string(last - first - waiting) + " of " + std::to_string(last - first) +
         " threads never reach " + what + " at " + text(one->where));
  for (unsigned i = first; i < last; ++i) machine.threads[i].state = Thread::kReady;
  return true;
}

// Until each of its lanes is done or waits for the block.
void run_warp(unsigned warp) {
  const unsigned first = warp * kLanes;
  do {
    each(kLanes, [&](unsigned lane) {
      if (machine.threads[first + lane].state == Thread::kReady) run_thread(first + lane);
    });
  } while (release(first, first + kLanes, Thread::kWaitsForWarp, "the warp's meeting"));
}

void run_block() {
  const auto threads = static_cast<unsigned>(machine.threads.size());
  for (Thread& thread : machine.threads) thread.state = Thread::kReady;
  machine.shared.clear();
  do {
    each(threads / kLanes, run_warp);
  } while (release(0, threads, Thread::kWaitsForBlock, "the barrier"));
}

void wait(Thread::State state, Where where) {
  Thread& thread = machine.threads[machine.running];
  thread.state = state;
  thread.where = where;
  Fiber::yield();
}

}  // namespace

void set_order(Order order) { machine.order = order; }

void run_grid(Dim3 grid, Dim3 block, std::size_t dynamic_bytes, const std::function<void()>& thread) {
  require(!machine.kernel, "no kernel launches another");
  const unsigned threads = block.x * block.y * block.z;
  require(threads > 0 && threads <= 1024 && threads % kLanes == 0, "a block has whole warps, and at most 32");
  gridDim = grid;
  blockDim = block;
  machine.threads.resize(threads);
  machine.warps.resize(threads / kLanes);
  machine.dynamic_bytes = dynamic_bytes;
  machine.kernel = &thread;
  const auto clean_up = [](Machine* m) { m->kernel = nullptr, m->shared.clear(); };
  const std::unique_ptr<Machine, decltype(clean_up)> at_the_end(&machine, clean_up);
  each(grid.x * grid.y * grid.z, [&](unsigned i) {
    blockIdx = at(i, grid);
    run_block();
  });
}

void* shared_memory(const void* site, std::size_t bytes) {
  for (const SharedVariable& variable : machine.shared)
    if (variable.site == site) return variable.memory.get();
  if (!site) bytes = machine.dynamic_bytes;
  machine.shared.push_back({site, std::make_unique_for_overwrite<std::byte[]>(bytes)});
  return std::memset(machine.shared.back().memory.get(), 0xFF, bytes);
}

void wait_for_block(Where where) { wait(Thread::kWaitsForBlock, where); }
void wait_for_warp(Where where) { wait(Thread::kWaitsForWarp, where); }
unsigned lane() { return machine.running % kLanes; }

const uint64_t* exchange(uint64_t mine, Where where) {
  const unsigned turn = machine.threads[machine.running].exchanges++ % 2;
  uint64_t* slots = machine.warps[machine.running / kLanes].slots[turn];
  slots[lane()] = mine;
  wait_for_warp(where);
  return slots;
}

}  // namespace recollect::emulation
