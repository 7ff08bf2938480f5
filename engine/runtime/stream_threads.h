// The threads of a device whose streams are threads: one for every stream except the compute stream, which is
// the calling thread. A thread starts when a program first needs it. All programs share the threads; one
// program runs at a time.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "engine/graph/graph.h"

namespace recollect {

// By stream: true if it takes part. The entry of the compute stream is never read.
using StreamSet = std::array<bool, kStreamCount>;

class StreamThreads {
 public:
  class Job {
   public:
    virtual ~Job() = default;
    virtual void run_stream(StreamId stream) = 0;  // called on the stream's thread; must not throw
  };

  StreamThreads() = default;
  ~StreamThreads();
  StreamThreads(const StreamThreads&) = delete;
  StreamThreads& operator=(const StreamThreads&) = delete;

  // Starts the threads of `streams` that do not run yet.
  void need(const StreamSet& streams);
  // Wakes the threads of `streams`; each does its part of the job. finish() waits for all of them.
  void begin(const StreamSet& streams, Job& job);
  void finish();

 private:
  void loop(std::size_t stream);

  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::array<std::thread, kStreamCount> threads_;
  std::array<Job*, kStreamCount> jobs_{};  // by stream: the job of its thread; null when it is done
  int busy_ = 0;
  bool stopping_ = false;
};

}  // namespace recollect
