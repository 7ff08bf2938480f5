#include "tests/gpu/emulation/grid.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/error.h"
#include "tests/gpu/emulation/fiber.h"
#include "tests/gpu/emulation/order.h"

namespace recollect::emulation {

namespace {

constexpr unsigned kLanes = 32;

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
  unsigned group;
};

struct Thread {
  enum State { kReady, kWaitsForWarp, kWaitsForBlock, kDone };

  State state = kReady;
  Where where;  // it waits
  std::unique_ptr<Fiber> fiber;
  unsigned exchanges = 0, barriers = 0, meetings = 0, groups = 0;
  std::vector<Copy> copies = {};  // that are under way
};

struct Warp {
  uint64_t slots[2][kLanes];  // by turns: whoever is late may still read the last ones
};

struct SharedVariable {
  const void* site;
  std::unique_ptr<std::byte[]> memory;
};

// Places of which whoever watches is told: a block's begin and end, and two by turns for its barriers and for the meetings of
// each warp, since what is told at the next one is not for those who are late.
class Meetings {
 public:
  explicit Meetings(std::size_t warps) : bytes_(std::make_unique<char[]>(4 + 2 * warps)) {}
  const void* begin() const { return &bytes_[0]; }
  const void* end() const { return &bytes_[1]; }
  const void* of_block(unsigned turn) const { return &bytes_[2 + turn % 2]; }
  const void* of_warp(unsigned warp, unsigned turn) const { return &bytes_[4 + 2 * warp + turn % 2]; }

 private:
  std::unique_ptr<char[]> bytes_;
};

struct Block {
  explicit Block(unsigned count) : threads(count), warps(count / kLanes), meetings(count / kLanes) {}

  std::vector<Thread> threads;
  std::vector<Warp> warps;
  Meetings meetings;
  std::vector<SharedVariable> shared;
  unsigned running = 0;
  void* side = nullptr;  // whose all of this is
};

struct Launch {
  const std::function<void()>& kernel;
  std::size_t dynamic_bytes;
  // Told of by the launch, and by its blocks: these know nothing of each other.
  std::unique_ptr<char> begin = std::make_unique<char>(), end = std::make_unique<char>();
  Block* block = nullptr;
  std::vector<std::unique_ptr<Fiber>> used = {};  // by threads that are done, while somebody watches
};
thread_local Launch* launch = nullptr;  // of the calling thread
thread_local Order order = Order::kForward;
thread_local Where barrier_left_out;
// Stacks are kept from launch to launch, but where somebody would think that this orders the launches; of those that
// are watched each is one thread's.
thread_local std::vector<std::unique_ptr<Fiber>> idle, watched_idle;
thread_local bool keeps_stacks = false;
thread_local unsigned watched_blocks = kAllBlocks;

Block& block() { return *launch->block; }
Thread& running() { return block().threads[block().running]; }

Dim3 at(unsigned index, Dim3 size) {
  return {index % size.x, index / size.x % size.y, index / size.x / size.y};
}

std::string text(Where where) { return std::string(where.file) + ":" + std::to_string(where.line); }

bool is_left_out(Where where) {
  return where.line == barrier_left_out.line && std::string_view(where.file).ends_with(barrier_left_out.file);
}

[[noreturn]] void fail(const std::string& what) {
  block().threads.clear();  // fibers in mid-air, never to be resumed
  idle.clear();
  if (watches_races())  // nor is it known when they last used these
    for (SharedVariable& variable : block().shared) (void)variable.memory.release();
  throw Error(ExitCode::kInternal,
              "block (" + std::to_string(blockIdx.x) + ", " + std::to_string(blockIdx.y) + "): " + what);
}

// Calls f(i) for i < count, in the thread's order.
template <typename F>
void each(unsigned count, F f) {
  for (unsigned i = 0; i < count; ++i) f(order == Order::kForward ? i : count - 1 - i);
}

std::unique_ptr<Fiber> take_fiber() {
  auto& kept = watches_races() ? watched_idle : idle;
  if (kept.empty()) return std::make_unique<Fiber>(watches_races());
  std::unique_ptr<Fiber> fiber = std::move(kept.back());
  kept.pop_back();
  return fiber;
}

void run_kernel(void*) {
  hears(block().meetings.begin());
  launch->kernel();
  tells(block().meetings.end());
}

void run_thread(unsigned index) {
  Thread& thread = block().threads[index];
  block().running = index;
  threadIdx = at(index, blockDim);
  if (!thread.fiber) {
    thread.fiber = take_fiber();
    thread.fiber->start(run_kernel, nullptr);
  }
  thread.fiber->resume();
  if (!thread.fiber->ended()) return;
  if (!thread.copies.empty()) fail("a thread ends before copies into the block's memory do");
  thread.state = Thread::kDone;
  if (!watches_races())
    idle.push_back(std::move(thread.fiber));
  else if (keeps_stacks)  // no other block's thread is the same one
    launch->used.push_back(std::move(thread.fiber));
}

// Lets go of threads [first, last) if all of them wait as `state` says and at the same place; false if none
// waits so.
bool release(unsigned first, unsigned last, Thread::State state, const char* what) {
  unsigned waiting = 0;
  const Thread* one = nullptr;
  for (unsigned i = first; i < last; ++i) {
    const Thread& thread = block().threads[i];
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
  for (unsigned i = first; i < last; ++i) block().threads[i].state = Thread::kReady;
  return true;
}

// Until each of its lanes is done or waits for the block.
void run_warp(unsigned warp) {
  const unsigned first = warp * kLanes;
  do {
    each(kLanes, [&](unsigned lane) {
      if (block().threads[first + lane].state == Thread::kReady) run_thread(first + lane);
    });
  } while (release(first, first + kLanes, Thread::kWaitsForWarp, "the warp's meeting"));
}

void run_block(unsigned threads) {
  const Side side;
  hears(launch->begin.get());
  Block made(threads);
  made.side = side.get();
  tells(made.meetings.begin());
  launch->block = &made;
  do {
    each(threads / kLanes, run_warp);
  } while (release(0, threads, Thread::kWaitsForBlock, "the barrier"));
  hears(made.meetings.end());
  tells(launch->end.get());
}

void wait(Thread::State state, Where where, const void* meeting) {
  running().state = state;
  running().where = where;
  if (meeting) tells(meeting);
  Fiber::yield();
  if (meeting) hears(meeting);
}

}  // namespace

void set_order(Order wanted) { order = wanted; }
void keep_stacks(bool keep) {
  keeps_stacks = keep;
  watched_idle.clear();
  if (can_watch_races()) idle.clear();
}
void watch_blocks(unsigned most) { watched_blocks = most; }
void leave_out_barrier(Where where) { barrier_left_out = where; }

void run_grid(Dim3 grid, Dim3 size, std::size_t dynamic_bytes, const std::function<void()>& thread) {
  require(!launch, "no kernel launches another");
  const unsigned threads = size.x * size.y * size.z;
  require(threads > 0 && threads <= 1024 && threads % kLanes == 0, "a block has whole warps, and at most 32");
  gridDim = grid;
  blockDim = size;
  Launch made{thread, dynamic_bytes};
  const unsigned blocks = grid.x * grid.y * grid.z;
  const bool watched = watches_races();
  if (watched && keeps_stacks)  // now, since blocks know nothing of each other
    made.used.reserve(std::size_t{std::min(blocks, watched_blocks)} * threads);
  launch = &made;
  const auto leave = [](Launch*) { launch = nullptr; };
  const std::unique_ptr<Launch, decltype(leave)> at_the_end(&made, leave);
  tells(made.begin.get());
  unsigned done = 0;
  each(blocks, [&](unsigned i) {
    if (watched && done++ == watched_blocks) watch_races(false);  // the others are this thread's doing
    blockIdx = at(i, grid);
    run_block(threads);
  });
  if (watched) watch_races(true);
  hears(made.end.get());
  for (auto& fiber : made.used) watched_idle.push_back(std::move(fiber));
  if (can_watch_races() && !keeps_stacks) idle.clear();
}

// The memory is the block's own: that a thread was the first to ask for it orders nothing.
void* shared_memory(const void* site, std::size_t bytes) {
  for (const SharedVariable& variable : block().shared)
    if (variable.site == site) {
      hears(variable.memory.get());
      return variable.memory.get();
    }
  if (!site) bytes = launch->dynamic_bytes;
  std::byte* memory = nullptr;
  {
    const Side of_block(block().side);
    block().shared.push_back({site, std::make_unique_for_overwrite<std::byte[]>(bytes)});
    memory = block().shared.back().memory.get();
    std::memset(memory, 0xFF, bytes);
    tells(memory);
  }
  hears(memory);
  return memory;
}

void wait_for_block(Where where) {
  if (is_left_out(where)) return;
  const unsigned turn = running().barriers++;
  wait(Thread::kWaitsForBlock, where, block().meetings.of_block(turn));
}
void wait_for_warp(Where where) {
  if (is_left_out(where)) return;
  const unsigned turn = running().meetings++;
  wait(Thread::kWaitsForWarp, where, block().meetings.of_warp(block().running / kLanes, turn));
}
unsigned lane() { return block().running % kLanes; }

const uint64_t* exchange(uint64_t mine, Where where) {
  const unsigned turn = running().exchanges++ % 2;
  uint64_t* slots = block().warps[block().running / kLanes].slots[turn];
  slots[lane()] = mine;
  wait(Thread::kWaitsForWarp, where, nullptr);  // CUDA promises nothing of the memory that lanes have written
  return slots;
}

void copy_later(void* to, const void* from, std::size_t bytes) {
  std::memset(to, 0xFF, bytes);
  running().copies.push_back({to, from, bytes, running().groups});
}
void commit_copies() { ++running().groups; }
void wait_for_copies(unsigned groups) {
  Thread& thread = running();
  const auto waits = [&](const Copy& copy) { return copy.group + groups < thread.groups; };
  for (const Copy& copy : thread.copies)
    if (waits(copy)) std::memcpy(copy.to, copy.from, copy.bytes);
  std::erase_if(thread.copies, waits);
}

}  // namespace recollect::emulation
