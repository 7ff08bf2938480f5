#include "engine/runtime/stream_threads.h"

namespace recollect {

StreamThreads::~StreamThreads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

void StreamThreads::need(const StreamSet& streams) {
  for (std::size_t s = 1; s < streams.size(); ++s)
    if (streams[s] && !threads_[s].joinable()) threads_[s] = std::thread([this, s] { loop(s); });
}

void StreamThreads::begin(const StreamSet& streams, Job& job) {
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t s = 1; s < streams.size(); ++s) {
      if (!streams[s]) continue;
      jobs_[s] = &job;
      ++busy_;
    }
  }
  wake_.notify_all();
}

void StreamThreads::finish() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return busy_ == 0; });
}

void StreamThreads::loop(std::size_t stream) {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || jobs_[stream]; });
    if (stopping_) return;
    Job* const job = jobs_[stream];
    lock.unlock();
    job->run_stream(static_cast<StreamId>(stream));
    lock.lock();
    jobs_[stream] = nullptr;
    if (--busy_ == 0) idle_.notify_all();
  }
}

}  // namespace recollect
