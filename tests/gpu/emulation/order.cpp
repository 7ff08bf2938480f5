// This file, and those that call it, are compiled without ThreadSanitizer's own looking: their memory is used by all.
#include "tests/gpu/emulation/order.h"

#include <atomic>

#if defined(RECOLLECT_WATCH_RACES)
#include <sanitizer/tsan_interface.h>
#endif

namespace recollect::emulation {

#if defined(RECOLLECT_WATCH_RACES)

namespace {

std::atomic<bool> watching = false;

}  // namespace

bool can_watch_races() { return true; }
void watch_races(bool on) { watching = on; }
bool watches_races() { return watching.load(std::memory_order_relaxed); }

void tells(const void* at) {
  if (watches_races()) __tsan_release(const_cast<void*>(at));
}
void hears(const void* at) {
  if (watches_races()) __tsan_acquire(const_cast<void*>(at));
}

Side::Side(void* other) {
  if (!watches_races()) return;
  before_ = __tsan_get_current_fiber();
  own_ = other == nullptr;
  side_ = own_ ? __tsan_create_fiber(0) : other;
  __tsan_switch_to_fiber(side_, __tsan_switch_to_fiber_no_sync);
}
Side::Side() : Side(nullptr) {}
Side::~Side() {
  if (!side_) return;
  __tsan_switch_to_fiber(before_, __tsan_switch_to_fiber_no_sync);
  if (own_) __tsan_destroy_fiber(side_);
}

#else

bool can_watch_races() { return false; }
void watch_races(bool) {}
bool watches_races() { return false; }
void tells(const void*) {}
void hears(const void*) {}
Side::Side() = default;
Side::Side(void*) {}
Side::~Side() = default;

#endif

}  // namespace recollect::emulation
