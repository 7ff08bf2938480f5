// The threads of a device whose streams are threads: one for every stream but the compute stream, which is the calling
// thread. Started when a program first needs them, and shared by all programs, of which one runs at a time.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "engine/graph/graph.h"

namespace recollect {

// By stream: whether it takes part. Of the compute stream it is never asked.
using StreamSet = std::array<bool, kStreamCount>;

class StreamThreads {
 public:
  class Job {
   public:
    virtual ~Job() = default;
    virtual void run_stream(StreamId stream) = 0;  // on the stream's thread; throws nothing
  };

  StreamThreads() = default;
  ~StreamThreads();
  StreamThreads(const StreamThreads&) = delete;
  StreamThreads& operator=(const StreamThreads&) = delete;

  // Starts the threads that are not there yet.
  void need(const StreamSet& streams);
  // Wakes those of `streams`, each to do its part of the job; finish() waits for all of them.
  void begin(const StreamSet& streams, Job& job);
  void finish();

 private:
  void loop(std::size_t stream);

  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::array<std::thread, kStreamCount> threads_;
  std::array<Job*, kStreamCount> jobs_{};  // by stream: what its thread is to do; null when that is done
  int busy_ = 0;
  bool stopping_ = false;
};

}  // namespace recollect
