#include "engine/runtime/worker_streams.h"

#include <time.h>

#include <algorithm>
#include <chrono>

namespace recollect {

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Processor time of the calling thread, in seconds.
double processor_now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

WorkerStreams::WorkerStreams(StreamOps ops, StreamThreads& threads)
    : Streams(std::move(ops)), threads_(threads), done_(ops_.graph.ops().size()) {
  for (const Op& op : ops_.graph.ops())
    if (op.stream != StreamId::kCompute) used_[static_cast<std::size_t>(op.stream)] = true;
  threads_.need(used_);
}

void WorkerStreams::run(OpId begin, OpId end, const RunState& state) {
  ++run_;
  begin_ = begin;
  end_ = end;
  state_ = &state;
  failed_ = false;
  error_ = nullptr;
  waits_.begin_run();
  threads_.begin(used_, *this);
  run_ops(StreamId::kCompute);
  const double finished = now();
  threads_.finish();
  const bool alone = std::find(used_.begin(), used_.end(), true) == used_.end();
  if (!alone && state.training) waits_.joined(now() - finished);
  if (error_) std::rethrow_exception(error_);
}

void WorkerStreams::run_stream(StreamId stream) {
  const double before = processor_now();
  run_ops(stream);
  if (state_->training) processor_seconds_[static_cast<std::size_t>(stream)] += processor_now() - before;
}

// After a failure every stream still goes through its ops and marks them done without running them, so that
// no stream waits forever.
void WorkerStreams::run_ops(StreamId stream) {
  for (OpId id = begin_; id < end_; ++id) {
    if (ops_.graph.op(id).stream != stream) continue;
    for (OpId before : ops_.schedule.waits[id])
      if (before >= begin_) wait_for(before, id, state_->training);
    waits_.begins(id);
    if (ops_.before) ops_.before(id);
    if (!failed_.load(std::memory_order_acquire)) try {
        ops_.run(id, {.state = state_});
      } catch (...) {
        fail(std::current_exception());
      }
    if (ops_.after) ops_.after(id);
    if (!ops_.schedule.waited_for[id]) {
      done_[id].store(run_, std::memory_order_release);
      continue;
    }
    // notify_all() first checks whether a thread sleeps. It must not check before a sleeper can see the
    // store, so the store is sequentially consistent. The store also publishes everything that the op has
    // written.
    done_[id].store(run_, std::memory_order_seq_cst);
    done_[id].notify_all();
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
  if (!error_) error_ = std::move(error);  // the first failure is the cause; later ones follow from it
  failed_.store(true, std::memory_order_release);
}

}  // namespace recollect
