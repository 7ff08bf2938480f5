// Switching saves what a called function must keep, no signal masks, so that it costs nanoseconds; where the
// processor is another one, ucontext does it. Sanitizers are told of every switch.
#include "tests/gpu/emulation/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#include "engine/core/error.h"

#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#elif defined(RECOLLECT_WATCH_RACES)
#include <sanitizer/tsan_interface.h>
#endif

#if defined(__x86_64__)
extern "C" void recollect_switch_stack(void** from, void* to);
asm(R"(
.text
.type recollect_switch_stack, @function
recollect_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size recollect_switch_stack, .-recollect_switch_stack
)");
#endif

namespace recollect::emulation {

namespace {

constexpr std::size_t kGuard = 4096, kStack = 128 << 10;

thread_local Fiber* current = nullptr;

// What a sanitizer knows of a stack. To ThreadSanitizer, going over to another one orders nothing.
#define RECOLLECT_INLINE [[gnu::always_inline]] inline
#if defined(__SANITIZE_ADDRESS__)
struct Watched {
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  void* fake = nullptr;

  void make(std::byte* low, bool) { bottom = low, bytes = kStack; }
  void leave(const Watched&) {}
  void forget(std::byte* low) { ASAN_UNPOISON_MEMORY_REGION(low, kStack); }
  void before_switch(const Watched& to) { __sanitizer_start_switch_fiber(&fake, to.bottom, to.bytes); }
  void after_switch(Watched& from) { __sanitizer_finish_switch_fiber(fake, &from.bottom, &from.bytes); }
};
#elif defined(RECOLLECT_WATCH_RACES)
struct Watched {
  void* fiber = nullptr;  // null: no thread of its own, or nobody to go back to
  bool made = false;

  ~Watched() {
    if (made) __tsan_destroy_fiber(fiber);
  }
  void make(std::byte*, bool thread) {
    if (thread) fiber = __tsan_create_fiber(0), made = true;
  }
  void forget(std::byte*) {}
  void leave(const Watched& to) { fiber = to.made ? __tsan_get_current_fiber() : nullptr; }
  RECOLLECT_INLINE void before_switch(const Watched& to) {
    if (to.fiber) __tsan_switch_to_fiber(to.fiber, __tsan_switch_to_fiber_no_sync);
  }
  RECOLLECT_INLINE void after_switch(Watched&) {}
};
#else
struct Watched {
  void make(std::byte*, bool) {}
  void leave(const Watched&) {}
  void forget(std::byte*) {}
  void before_switch(const Watched&) {}
  void after_switch(Watched&) {}
};
#endif

#if defined(__x86_64__)

// Where a stack was left.
struct Place {
  void* top = nullptr;

  void begin(std::byte* low, void (*function)()) {
    void** slot = reinterpret_cast<void**>(low + kStack);
    *--slot = nullptr;  // where `function` would return to; also aligns the stack
    *--slot = reinterpret_cast<void*>(function);
    for (int i = 0; i < 6; ++i) *--slot = nullptr;
    top = slot;
  }
  RECOLLECT_INLINE void go(Place& to) { recollect_switch_stack(&top, to.top); }
};

#else

struct Place {
  ucontext_t context{};

  void begin(std::byte* low, void (*function)()) {
    getcontext(&context);
    context.uc_stack.ss_sp = low;
    context.uc_stack.ss_size = kStack;
    makecontext(&context, function, 0);
  }
  RECOLLECT_INLINE void go(Place& to) { swapcontext(&context, &to.context); }
};

#endif

}  // namespace

struct Fiber::Context {
  Place place;
  Watched watched;

  RECOLLECT_INLINE void go(Context& to) {
    watched.before_switch(to.watched);
    place.go(to.place);
    watched.after_switch(to.watched);
  }
};

Fiber::Fiber(bool thread) : inside_(std::make_unique<Context>()), outside_(std::make_unique<Context>()) {
  void* memory = mmap(nullptr, kGuard + kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory, kGuard, PROT_NONE);
  stack_ = static_cast<std::byte*>(memory) + kGuard;
  inside_->watched.make(stack_, thread);
  inside_->place.begin(stack_, run);
}

Fiber::~Fiber() {
  inside_->watched.forget(stack_);
  munmap(stack_ - kGuard, kGuard + kStack);
}

void Fiber::start(void (*function)(void*), void* argument) {
  require(ended_, "a fiber has one function at a time");
  function_ = function;
  argument_ = argument;
  ended_ = false;
}

void Fiber::run() {
  Fiber* fiber = current;
  fiber->inside_->watched.after_switch(fiber->outside_->watched);
  while (true) {
    fiber->function_(fiber->argument_);
    fiber->ended_ = true;
    fiber->inside_->go(*fiber->outside_);
  }
}

void Fiber::resume() {
  Fiber* before = current;
  current = this;
  outside_->watched.leave(inside_->watched);
  outside_->go(*inside_);
  current = before;
}

void Fiber::yield() { current->inside_->go(*current->outside_); }

}  // namespace recollect::emulation
