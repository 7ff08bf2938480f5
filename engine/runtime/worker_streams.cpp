#include "engine/runtime/worker_streams.h"

#include <time.h>

#include <chrono>

namespace recollect {

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Of the calling thread.
double processor_now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

WorkerStreams::WorkerStreams(StreamOps ops) : Streams(std::move(ops)), done_(ops_.graph.ops().size()) {
  bool used[kStreamCount] = {};
  for (const Op& op : ops_.graph.ops()) used[static_cast<int>(op.stream)] = true;
  for (int s = 1; s < kStreamCount; ++s)
    if (used[s]) workers_.push_back({static_cast<StreamId>(s), {}});
  try {
    for (Worker& worker : workers_)
      worker.thread = std::thread([this, s = worker.stream] { worker_loop(s); });
  } catch (...) {
    stop();
    throw;
  }
}

WorkerStreams::~WorkerStreams() { stop(); }

void WorkerStreams::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (Worker& worker : workers_)
    if (worker.thread.joinable()) worker.thread.join();
}

void WorkerStreams::run(OpId begin, OpId end, const RunState& state) {
  {
    std::lock_guard lock(mutex_);
    ++run_;
    busy_ = static_cast<int>(workers_.size());
    begin_ = begin;
    end_ = end;
    state_ = &state;
    failed_ = false;
    error_ = nullptr;
    waits_.begin_run();
  }
  wake_.notify_all();
  run_stream(StreamId::kCompute, begin, end, state);
  const double finished = now();
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return busy_ == 0; });
  if (!workers_.empty() && state.training) waits_.joined(now() - finished);
  if (error_) std::rethrow_exception(error_);
}

void WorkerStreams::worker_loop(StreamId stream) {
  uint32_t finished = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || run_ != finished; });
    if (stopping_) return;
    finished = run_;
    const OpId begin = begin_, end = end_;
    const RunState& state = *state_;
    lock.unlock();
    const double before = processor_now();
    run_stream(stream, begin, end, state);
    if (state.training) processor_seconds_[static_cast<std::size_t>(stream)] += processor_now() - before;
    lock.lock();
    if (--busy_ == 0) idle_.notify_all();
  }
}

// After a failure every stream still goes through its ops, marking them done without running them, so that
// nobody waits for ever.
void WorkerStreams::run_stream(StreamId stream, OpId begin, OpId end, const RunState& state) {
  for (OpId id = begin; id < end; ++id) {
    if (ops_.graph.op(id).stream != stream) continue;
    for (OpId before : ops_.schedule.waits[id])
      if (before >= begin) wait_for(before, id, state.training);
    waits_.begins(id);
    if (ops_.before) ops_.before(id);
    if (!failed_.load(std::memory_order_acquire)) try {
        ops_.run(id, {.state = &state});
      } catch (...) {
        fail(std::current_exception());
      }
    if (ops_.after) ops_.after(id);
    done_[id].store(run_, std::memory_order_release);
    if (ops_.schedule.waited_for[id]) done_[id].notify_all();
  }
}

void WorkerStreams::wait_for(OpId before, OpId waiter, bool counts) {
  uint32_t seen = done_[before].load(std::memory_order_acquire);
  if (seen == run_) return;
  const double start = now();
  while (seen != run_) {
    done_[before].wait(seen, std::memory_order_acquire);
    seen = done_[before].load(std::memory_order_acquire);
  }
  waits_.waited(waiter, before, start, now(), counts);
}

void WorkerStreams::fail(std::exception_ptr error) {
  std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);  // the first failure is the cause; later ones are its echo
  failed_.store(true, std::memory_order_release);
}

}  // namespace recollect
