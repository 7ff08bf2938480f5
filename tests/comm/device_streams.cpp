#include "tests/comm/device_streams.h"

#include <chrono>
#include <cstring>
#include <vector>

#include "comm/reduction.h"

namespace recollect::test {
namespace {

struct DeviceStreamsEvent {
  std::mutex mutex;
  std::condition_variable wake;
  uint64_t recorded = 0, reached = 0;
};
using SharedEvent = std::shared_ptr<DeviceStreamsEvent>;

const SharedEvent& event_of(void* handle) { return *static_cast<SharedEvent*>(handle); }
void run_to_the_end(StreamJob& job) {
  for (bool first = true; !job.step(first); first = false)
    std::this_thread::sleep_for(std::chrono::microseconds(20));
}
WorkerStream& stream_of(void* handle) { return *static_cast<WorkerStream*>(static_cast<StreamAbi*>(handle)); }

}  // namespace

WorkerStream::WorkerStream(uint32_t seed, bool jitter)
    : StreamAbi{[](StreamAbi* self, std::unique_ptr<StreamJob> job) {
        const std::shared_ptr<StreamJob> shared = std::move(job);
        static_cast<WorkerStream*>(self)->enqueue([shared] { run_to_the_end(*shared); });
      }},
      jitter_(jitter),
      random_(seed + 1),
      thread_([this] { work(); }) {}

WorkerStream::~WorkerStream() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void WorkerStream::enqueue(std::function<void()> op) {
  {
    std::lock_guard lock(mutex_);
    ops_.push_back(std::move(op));
  }
  wake_.notify_all();
}

void WorkerStream::synchronize() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return ops_.empty() && !busy_; });
}

void WorkerStream::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !ops_.empty(); });
    if (ops_.empty()) return;
    const auto op = std::move(ops_.front());
    ops_.pop_front();
    busy_ = true;
    lock.unlock();
    if (jitter_ && random_() % 4 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % 100));
    op();
    lock.lock();
    busy_ = false;
    if (ops_.empty()) idle_.notify_all();
  }
}

void* WorkerRuntime::make_event() { return new SharedEvent(std::make_shared<DeviceStreamsEvent>()); }

void WorkerRuntime::destroy_event(void* event) noexcept { delete static_cast<SharedEvent*>(event); }

void WorkerRuntime::record(void* event, void* stream) {
  const SharedEvent it = event_of(event);
  std::unique_lock lock(it->mutex);
  const uint64_t number = ++it->recorded;
  lock.unlock();
  stream_of(stream).enqueue([it, number] {
    std::lock_guard reach(it->mutex);
    it->reached = std::max(it->reached, number);
    it->wake.notify_all();
  });
}

void WorkerRuntime::wait(void* stream, void* event) {
  const SharedEvent it = event_of(event);
  std::unique_lock lock(it->mutex);
  const uint64_t number = it->recorded;
  lock.unlock();
  stream_of(stream).enqueue([it, number] {
    std::unique_lock reach(it->mutex);
    it->wake.wait(reach, [&] { return it->reached >= number; });
  });
}

void WorkerRuntime::copy(void* to, const void* from, std::size_t bytes, void* stream) {
  stream_of(stream).enqueue([=] { std::memmove(to, from, bytes); });
}

void WorkerRuntime::reduce(DType dtype, ReduceOp op, const void* const* parts, int count, void* out,
                           int64_t elements, void* stream) {
  const std::vector<const void*> addresses(parts, parts + count);
  stream_of(stream).enqueue(
      [=] { reduce_parts(dtype, op, addresses.data(), static_cast<int>(addresses.size()), out, elements); });
}

std::shared_ptr<uint32_t> WorkerRuntime::make_words(std::size_t count) {
  return {new uint32_t[count](), std::default_delete<uint32_t[]>()};
}

void WorkerRuntime::write_word(uint32_t* word, uint32_t value, void* stream) {
  stream_of(stream).enqueue([=] { std::atomic_ref(*word).store(value, std::memory_order_release); });
}

}  // namespace recollect::test
