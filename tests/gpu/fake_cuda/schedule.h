// When the work of all fake devices runs: on the thread that waits for it, and not before. Work of one lane runs in
// the order in which it was put there, and after what it waits for; apart from that the order is a choice, so that
// what depends on it is seen:
//   kLate    what is waited for, and of other lanes only what that needs, each as late as it may be
//   kEarly   other lanes first, as far ahead as their waits let them
//   kRandom  any lane that may go on, by a seed
// Not for several threads at once: callers hold the world's lock (world.h).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "tests/gpu/fake_cuda/lane.h"

namespace recollect::fake_cuda {

enum class RunOrder { kLate, kEarly, kRandom };

struct Queue;

struct Work {
  std::shared_ptr<Queue> queue;
  std::vector<std::shared_ptr<Work>> after;  // beside what its queue holds before it; empty when it is done
  Job* job = nullptr;                        // null: a mark
  bool owns_job = true;
  bool begun = false, done = false;
  uint64_t cost = 0;   // nanoseconds that it takes, where the device has clocks
  uint64_t ended = 0;  // the device's time in nanoseconds, when it is done
};
using WorkPointer = std::shared_ptr<Work>;

struct Queue {
  Lane lane;
  int device = 0;
  std::deque<WorkPointer> pending;
  // When its latest work was done, by the device's clocks. Queues that one engine serves in turn share it.
  std::shared_ptr<uint64_t> time = std::make_shared<uint64_t>(0);
};
using QueuePointer = std::shared_ptr<Queue>;

class Schedule {
 public:
  // `clocks`: work begins when what it waits for is done, and takes its cost, in whatever order it is run here. Without
  // them a piece of work takes a microsecond, one after the other.
  Schedule(RunOrder order, uint32_t seed, bool clocks) : order_(order), clocks_(clocks), random_(seed + 1) {}
  ~Schedule();

  // `job` may be null; the work owns it unless it is said to be another's.
  WorkPointer add(const QueuePointer& queue, std::vector<WorkPointer> after, Job* job, bool owns_job = true,
                  uint64_t cost = 0);

  // Runs one step of something that brings `target` nearer; false where nothing can go on now. What a job throws is
  // thrown here, and its work is done; on which device that was, failed() says.
  bool step(const WorkPointer& target);
  // The last work of each queue of a device, or of all (-1), that is not done.
  std::vector<WorkPointer> last(int device) const;
  int failed() const { return failed_; }
  bool flip();                            // a coin, by the seed
  uint64_t now() const { return time_; }  // when the latest work was done, in nanoseconds
  // From now on work is done without being run: its device is dead.
  void stop(int device);

 private:
  bool try_step(QueuePointer queue);
  WorkPointer needed(const WorkPointer& target) const;
  std::vector<QueuePointer> candidates(const WorkPointer& target);
  void finish(const QueuePointer& queue);

  const RunOrder order_;
  const bool clocks_;
  std::mt19937 random_;
  uint64_t time_ = 0;
  int failed_ = 0;
  std::vector<QueuePointer> busy_;  // have pending work; in the order in which they got it
  std::vector<bool> dead_;          // by device
};

}  // namespace recollect::fake_cuda
