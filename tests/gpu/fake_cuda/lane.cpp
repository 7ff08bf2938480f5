// What a lane is told of, and its jobs, are told to ThreadSanitizer on its fiber, which has a stack of its own: one
// that several lanes used would be a race of theirs. This file is compiled without the sanitizer's own looking.
#include "tests/gpu/fake_cuda/lane.h"

#include <exception>

#if defined(RECOLLECT_WATCH_RACES)
#include <sanitizer/tsan_interface.h>
#endif

namespace recollect::fake_cuda {

namespace {

thread_local bool device_work = false;

}  // namespace

bool is_device_work() { return device_work; }
void set_device_work(bool running) { device_work = running; }

#if defined(RECOLLECT_WATCH_RACES)

Lane::Lane() : fiber_(std::make_unique<emulation::Fiber>(true)) {}
Lane::~Lane() = default;

template <typename Function>
void Lane::on(Function function) {
  fiber_->start([](void* f) { (*static_cast<Function*>(f))(); }, &function);
  fiber_->resume();
}

void Lane::hears(const void* at) {
  on([at] { __tsan_acquire(const_cast<void*>(at)); });
}
void Lane::tells(const void* at) {
  on([at] { __tsan_release(const_cast<void*>(at)); });
}

bool Lane::step(Job* job, bool first) {
  bool done = false;
  std::exception_ptr failure;
  on([&] {
    try {
      done = job->step(first);
    } catch (...) {
      failure = std::current_exception();
      __tsan_release(job);
    }
  });
  if (!failure) return done;
  __tsan_acquire(job);
  std::rethrow_exception(failure);
}

void Lane::destroy(Job* job) {
  on([job] { delete job; });
}

void thread_hears(const void* at) { __tsan_acquire(const_cast<void*>(at)); }
void thread_tells(const void* at) { __tsan_release(const_cast<void*>(at)); }

#else

Lane::Lane() = default;
Lane::~Lane() = default;
void Lane::hears(const void*) {}
void Lane::tells(const void*) {}
bool Lane::step(Job* job, bool first) { return job->step(first); }
void Lane::destroy(Job* job) { delete job; }
void thread_hears(const void*) {}
void thread_tells(const void*) {}

#endif

}  // namespace recollect::fake_cuda
