// What ThreadSanitizer is told of the order between CUDA threads. Where it watches races, those that run as fibers here
// are threads to it, and nothing but a barrier, or a meeting of a warp, comes between what two of them do: a barrier
// that is missing is a race, even where the values come out right. That takes long, so tests ask for it; otherwise a
// launch is the doing of one thread. In other builds all of this is nothing.
#pragma once

namespace recollect::emulation {

bool can_watch_races();  // in this build
// From now on, in all threads; no kernel may run. Nothing is used for two CUDA threads then, or for two blocks.
void watch_races(bool on);
bool watches_races();

// What was told of `at` comes before all that whoever hears it does from now on.
void tells(const void* at);
void hears(const void* at);

// While it lives, what is done is the doing of a thread of its own, which has heard of nothing; or of another one that
// is alive.
class Side {
 public:
  Side();
  explicit Side(void* other);
  ~Side();
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  void* get() const { return side_; }

 private:
  void *before_ = nullptr, *side_ = nullptr;
  bool own_ = false;
};

}  // namespace recollect::emulation
