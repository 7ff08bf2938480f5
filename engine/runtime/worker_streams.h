// Streams that are threads. The compute stream is the calling thread; every other stream that the program
// uses has its own thread. A wait that is missing from the schedule is therefore a data race that
// ThreadSanitizer can see.
#pragma once

#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <vector>

#include "engine/runtime/stream_threads.h"
#include "engine/runtime/streams.h"

namespace recollect {

class WorkerStreams final : public Streams, private StreamThreads::Job {
 public:
  // `threads` must outlive the streams.
  WorkerStreams(StreamOps ops, StreamThreads& threads);

  void run(OpId begin, OpId end, const RunState& state) override;
  double processor_seconds(StreamId stream) const override {
    return processor_seconds_[static_cast<std::size_t>(stream)];
  }

 private:
  void run_stream(StreamId stream) override;
  void run_ops(StreamId stream);
  void wait_for(OpId before, OpId waiter, bool counts);
  void fail(std::exception_ptr error);

  StreamThreads& threads_;
  StreamSet used_{};                         // side streams of this program
  std::vector<std::atomic<uint32_t>> done_;  // by op: the number of the run in which it last finished
  std::array<double, kStreamCount> processor_seconds_{};  // each written by its own thread

  // The current run; not read between runs.
  uint32_t run_ = 0;  // its number
  OpId begin_ = 0, end_ = 0;
  const RunState* state_ = nullptr;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;  // guards error_
  std::exception_ptr error_;
};

}  // namespace recollect
