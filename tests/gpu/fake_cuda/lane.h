// A queue of a fake device as ThreadSanitizer sees it: a thread of its own, whatever thread really runs what the queue
// holds, and ordered with others by nothing but the waits that were asked for. So a wait that is missing is a race,
// even where this time everything came in the right order. In other builds a lane is nothing.
#pragma once

#include <memory>

#include "tests/comm/stream_abi.h"
#include "tests/gpu/emulation/fiber.h"

namespace recollect::fake_cuda {

using Job = test::StreamJob;

class Lane {
 public:
  Lane();
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // What was told of `at` before has happened before everything that this lane does from now on.
  void hears(const void* at);
  void tells(const void* at);
  // One step of a job on this lane, whose Errors are thrown here; or the end of it there.
  bool step(Job* job, bool first);
  void destroy(Job* job);

 private:
  template <typename Function>
  void on(Function function);

  std::unique_ptr<emulation::Fiber> fiber_;  // null where nobody watches
};

// Whether the calling thread is running work of a device, which may ask nothing of the runtime. Lanes ask too, on
// whatever thread they are.
bool is_device_work();
void set_device_work(bool running);

// As a lane's, of the calling thread.
void thread_hears(const void* at);
void thread_tells(const void* at);

}  // namespace recollect::fake_cuda
