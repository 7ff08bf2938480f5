// A device that is this machine: its streams are worker threads, so that a wait which the collectives forget
// is a data race. Every rank has a runtime and streams of its own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>

#include "comm/device/device_runtime.h"
#include "tests/comm/stream_abi.h"

namespace recollect::test {

class WorkerStream : public StreamAbi {
 public:
  // With jitter, ops start a little later than they could, by an amount that `seed` decides.
  explicit WorkerStream(uint32_t seed, bool jitter = true);
  ~WorkerStream();  // after all that was enqueued
  WorkerStream(const WorkerStream&) = delete;
  WorkerStream& operator=(const WorkerStream&) = delete;

  void enqueue(std::function<void()> op);
  void synchronize();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::deque<std::function<void()>> ops_;
  bool busy_ = false, stopping_ = false;
  const bool jitter_;
  std::minstd_rand random_;
  std::thread thread_;
};

// Streams are WorkerStreams.
class WorkerRuntime : public device::DeviceRuntime {
 public:
  explicit WorkerRuntime(std::string hardware) : hardware_(std::move(hardware)) {}

  std::atomic<uint64_t> capture =
      0;  // what is enqueued is as if it were captured, where it is done all the same
  std::atomic<bool> shareable = false;
  std::atomic<uint64_t> in_node = 0;

  void make_current() override {}
  std::string hardware_id() const override { return hardware_; }
  uint64_t node() const override { return in_node; }
  std::size_t free_bytes() const override { return free_bytes_ -= 1000; }
  void* make_event() override;
  void destroy_event(void* event) noexcept override;
  void record(void* event, void* stream) override;
  void wait(void* stream, void* event) override;
  void copy(void* to, const void* from, std::size_t bytes, void* stream) override;
  void reduce(DType dtype, ReduceOp op, const void* const* parts, int count, void* out, int64_t elements,
              void* stream) override;
  std::shared_ptr<uint32_t> make_words(std::size_t count) override;
  void write_word(uint32_t* word, uint32_t value, void* stream) override;
  uint64_t capture_of(void*) const override { return capture; }
  bool is_shareable(const void*) const override { return shareable; }

 private:
  const std::string hardware_;
  mutable std::atomic<std::size_t> free_bytes_ = std::size_t{1} << 30;
};

// A communicator on streams as one that is done when a call returns.
class Synchronous final : public Communicator {
 public:
  Synchronous(Communicator& inner, WorkerStream& stream) : inner_(inner), stream_(stream) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string name() const override { return inner_.name(); }
  void all_reduce(const Tensor& tensor, ReduceOp op, void*) override {
    inner_.all_reduce(tensor, op, &stream_);
    finish();
  }
  void all_gather(const Tensor& in, const Tensor& out, void*) override {
    inner_.all_gather(in, out, &stream_);
    finish();
  }
  void reduce_scatter(const Tensor& in, const Tensor& out, void*) override {
    inner_.reduce_scatter(in, out, &stream_);
    finish();
  }
  void broadcast(const Tensor& tensor, int root, void*) override {
    inner_.broadcast(tensor, root, &stream_);
    finish();
  }
  void barrier() override { inner_.barrier(); }
  void pass(const Parcel& out, const Parcel& in, void*) override {
    inner_.pass(out, in, &stream_);
    finish();
  }
  std::unique_ptr<Communicator> split(int color) override { return inner_.split(color); }
  void abort(const std::string& why) noexcept override { inner_.abort(why); }

 private:
  void finish() {
    stream_.synchronize();
    inner_.check();
  }

  Communicator& inner_;
  WorkerStream& stream_;
};

}  // namespace recollect::test
