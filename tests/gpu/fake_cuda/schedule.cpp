#include "tests/gpu/fake_cuda/schedule.h"

#include <algorithm>
#include <utility>

namespace recollect::fake_cuda {

namespace {

// Of what a work waits for beside its queue, the first that is not done.
WorkPointer unfinished(const Work& work) {
  for (const WorkPointer& before : work.after)
    if (!before->done) return before;
  return nullptr;
}

}  // namespace

Schedule::~Schedule() {
  for (const QueuePointer& queue : busy_)
    for (const WorkPointer& work : queue->pending) {
      if (work->job && work->owns_job) delete work->job;
      work->after.clear();
      work->queue.reset();
    }
  for (const QueuePointer& queue : busy_) queue->pending.clear();
}

WorkPointer Schedule::add(const QueuePointer& queue, std::vector<WorkPointer> after, Job* job, bool owns_job,
                          uint64_t cost) {
  auto work = std::make_shared<Work>();
  work->queue = queue;
  work->after = std::move(after);
  work->job = job;
  work->owns_job = owns_job;
  work->cost = cost;
  work->ended = time_;  // it begins no earlier than it was asked for
  thread_tells(work.get());
  if (queue->pending.empty()) busy_.push_back(queue);
  queue->pending.push_back(work);
  return work;
}

bool Schedule::step(const WorkPointer& target) {
  if (order_ == RunOrder::kLate && try_step(needed(target)->queue)) return true;
  for (const QueuePointer& queue : candidates(target))
    if (try_step(queue)) return true;
  return false;
}

// The first of a queue, on the way from `target` back to what it waits for.
WorkPointer Schedule::needed(const WorkPointer& target) const {
  WorkPointer work = target;
  while (true) {
    work = work->queue->pending.front();
    WorkPointer before = unfinished(*work);
    if (!before) return work;
    work = std::move(before);
  }
}

std::vector<QueuePointer> Schedule::candidates(const WorkPointer& target) {
  std::vector<QueuePointer> queues(busy_.rbegin(), busy_.rend());
  if (order_ == RunOrder::kRandom) std::shuffle(queues.begin(), queues.end(), random_);
  if (order_ == RunOrder::kEarly)
    std::stable_partition(queues.begin(), queues.end(),
                          [&](const QueuePointer& queue) { return queue != target->queue; });
  return queues;
}

bool Schedule::try_step(
    QueuePointer queue) {  // NOLINT(performance-unnecessary-value-param): it may be the last
  const WorkPointer work = queue->pending.front();
  if (unfinished(*work)) return false;
  const auto device = static_cast<std::size_t>(queue->device);
  const bool dead = device < dead_.size() && dead_[device];
  if (!work->begun) {
    queue->lane.hears(work.get());  // whoever put it there
    for (const WorkPointer& before : work->after) queue->lane.hears(before.get());
  }
  if (work->job && !dead) try {
      if (!queue->lane.step(work->job, !std::exchange(work->begun, true))) return false;
    } catch (...) {
      failed_ = queue->device;
      finish(queue);
      throw;
    }
  finish(queue);
  return true;
}

void Schedule::finish(const QueuePointer& queue) {
  const WorkPointer work = std::move(queue->pending.front());
  queue->pending.pop_front();
  if (queue->pending.empty()) busy_.erase(std::find(busy_.begin(), busy_.end(), queue));
  if (work->job && work->owns_job) queue->lane.destroy(std::exchange(work->job, nullptr));
  queue->lane.tells(work.get());
  if (clocks_) {
    work->ended = std::max(work->ended, *queue->time);
    for (const WorkPointer& before : work->after) work->ended = std::max(work->ended, before->ended);
    *queue->time = work->ended += work->cost;
    time_ = std::max(time_, work->ended);
  } else {
    work->ended = time_ += 1000;
  }
  work->after.clear();
  work->queue.reset();
  work->done = true;
}

std::vector<WorkPointer> Schedule::last(int device) const {
  std::vector<WorkPointer> all;
  for (const QueuePointer& queue : busy_)
    if (device < 0 || queue->device == device) all.push_back(queue->pending.back());
  return all;
}

bool Schedule::flip() { return random_() % 2 == 0; }

void Schedule::stop(int device) {
  dead_.resize(std::max(dead_.size(), static_cast<std::size_t>(device) + 1), false);
  dead_[static_cast<std::size_t>(device)] = true;
}

}  // namespace recollect::fake_cuda
