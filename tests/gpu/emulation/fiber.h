// A function on a stack of its own: resume() goes in, yield() comes out. What it yields in belongs to the thread that
// it was resumed on.
#pragma once

#include <cstddef>
#include <memory>

namespace recollect::emulation {

class Fiber {
 public:
  // `thread`: to ThreadSanitizer it is a thread of its own, which going in and coming out orders with nothing;
  // otherwise it is the doing of who resumes it.
  explicit Fiber(bool thread = false);
  ~Fiber();
  Fiber(const Fiber&) = delete;

  // When the last function has ended. A fiber may be destroyed at any time: what ran is forgotten in mid-air.
  void start(void (*function)(void*), void* argument);
  void resume();        // until the function yields or ends
  static void yield();  // back to who resumed the fiber that runs
  bool ended() const { return ended_; }

 private:
  struct Context;  // where a stack was left
  static void run();

  std::byte* stack_ = nullptr;
  std::unique_ptr<Context> inside_, outside_;
  void (*function_)(void*) = nullptr;
  void* argument_ = nullptr;
  bool ended_ = true;
};

}  // namespace recollect::emulation
