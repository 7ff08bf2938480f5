// Streams that are threads. The compute stream is the calling thread; every other stream that the program
// uses is a worker thread of its own, so a wait that is missing from the schedule is a data race that
// ThreadSanitizer can see.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/runtime/streams.h"

namespace recollect {

class WorkerStreams final : public Streams {
 public:
  explicit WorkerStreams(StreamOps ops);
  ~WorkerStreams() override;

  void run(OpId begin, OpId end, const RunState& state) override;
  double processor_seconds(StreamId stream) const override {
    return processor_seconds_[static_cast<std::size_t>(stream)];
  }

 private:
  struct Worker {
    StreamId stream;
    std::thread thread;
  };

  void run_stream(StreamId stream, OpId begin, OpId end, const RunState& state);
  void wait_for(OpId before, OpId waiter, bool counts);
  void fail(std::exception_ptr error);
  void worker_loop(StreamId stream);
  void stop();

  std::vector<std::atomic<uint32_t>> done_;  // by op: the run in which it last finished
  std::vector<Worker> workers_;
  std::array<double, kStreamCount> processor_seconds_{};  // each written by its own worker

  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  uint32_t run_ = 0;  // number of the current run
  int busy_ = 0;      // workers that have not finished it
  OpId begin_ = 0, end_ = 0;
  const RunState* state_ = nullptr;
  bool stopping_ = false;
  std::atomic<bool> failed_ = false;
  std::exception_ptr error_;
};

}  // namespace recollect
