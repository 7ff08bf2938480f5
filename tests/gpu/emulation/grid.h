// Runs a kernel's grid on the calling thread, block after block, every CUDA thread of a block as a fiber.
// Threads run until they wait for each other, in an order that the caller may turn around: code that lacks a
// barrier then gives other results. Shared memory is the heap's, of exact size, and holds NaN when a block
// begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace recollect::emulation {

struct Dim3 {
  constexpr Dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  unsigned x, y, z;
};

// Of a call, where this is a default argument. clang 14 has no std::source_location.
struct Where {
  const char* file = "";
  unsigned line = 0;
  static constexpr Where current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return {file, line};
  }
};

// From now on, for the calling thread's launches.
enum class Order { kForward, kBackward };
void set_order(Order order);
// The calling thread's launches come one behind the other, none of them on a stream: what each thread of a launch ran as may
// run in the next one too, which saves most of the time where races are watched.
void keep_stacks(bool keep);
// Of a launch of the calling thread races are watched in so many blocks, and between these and the others.
inline constexpr unsigned kAllBlocks = ~0u;
void watch_blocks(unsigned most);
// Nor does anybody wait at the barrier of this place, of a block or of a warp: what a kernel is that lacks it. The file's
// name may be its end alone; Where() is none. The name must outlive the launches.
void leave_out_barrier(Where where);

// Throws a recollect::Error where threads wait for what never comes: a barrier that not all of a block reach,
// or not the same one; a warp's exchange that not all its lanes take part in.
void run_grid(Dim3 grid, Dim3 block, std::size_t dynamic_bytes, const std::function<void()>& thread);

// For kernels. A null site stands for the launch's dynamic memory, and its size does not matter.
void* shared_memory(const void* site, std::size_t bytes);
void wait_for_block(Where where);
void wait_for_warp(Where where);
unsigned lane();
// Gives 8 bytes to the other lanes, and returns theirs, in order of lanes; good until the next exchange but
// one. Orders nothing else that lanes read and write, as CUDA's shuffles do not.
const uint64_t* exchange(uint64_t mine, Where where);
// A copy of the running thread's into its block's memory: until the thread waits for the group that it commits the copy
// with, there are NaNs; no thread may end before. A wait leaves out the last `groups` that were committed.
void copy_later(void* to, const void* from, std::size_t bytes);
void commit_copies();
void wait_for_copies(unsigned groups);

}  // namespace recollect::emulation

// Of the CUDA thread that runs, by CUDA's names.
inline thread_local constinit recollect::emulation::Dim3 threadIdx, blockIdx, blockDim, gridDim;
