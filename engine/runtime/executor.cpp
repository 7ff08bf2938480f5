#include "engine/runtime/executor.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "engine/runtime/lifetime.h"

namespace recollect {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

double seconds_since(Clock::time_point start) { return seconds_between(start, Clock::now()); }

template <typename T>
bool all_finite(const Tensor& tensor) {
  const T* data = tensor.as<T>();
  for (int64_t i = 0; i < tensor.elements(); ++i)
    if (!std::isfinite(static_cast<double>(data[i]))) return false;
  return true;
}

bool finite(const Tensor& tensor) {
  switch (tensor.dtype) {
    case DType::kF64:
      return all_finite<double>(tensor);
    case DType::kF32:
      return all_finite<float>(tensor);
    case DType::kBF16:
      return all_finite<bf16>(tensor);
    default:
      return true;
  }
}

// By op before `end`: does it make a persistent value, or what another one needs that does?
std::vector<char> ops_that_lead_on(const Graph& graph, OpId end) {
  std::vector<char> leads(end, 0), wanted(graph.values().size(), 0);
  for (OpId id = end - 1; id >= 0; --id) {
    const Op& op = graph.op(id);
    leads[id] = std::any_of(op.outputs.begin(), op.outputs.end(), [&](ValueId v) {
      return v != kNone && (graph.value(v).persistent || wanted[v]);
    });
    for (ValueId v : op.inputs)
      if (leads[id] && v != kNone) wanted[v] = 1;
  }
  return leads;
}

}  // namespace

Executor::Executor(Program program, ExecutorProbe* probe)
    : program_(std::move(program)),
      probe_(probe),
      arena_(program_.foretold().arena_bytes()),
      host_arena_(program_.foretold().host_bytes),
      executed_(program_.graph.ops().size(), 0),
      done_(program_.graph.ops().size()),
      wait_seconds_(program_.graph.ops().size(), 0.0),
      began_after_(program_.graph.ops().size()) {
  const Graph& graph = program_.graph;
  bool used[kStreamCount] = {};
  forward_end_ = optimizer_begin_ = static_cast<OpId>(graph.ops().size());
  for (OpId id = 0; id < static_cast<OpId>(graph.ops().size()); ++id) {
    const Op& op = graph.op(id);
    used[static_cast<int>(op.stream)] = true;
    const bool optimizer = op.phase == Phase::kOptimizer;
    if (op.phase != Phase::kForward) forward_end_ = std::min(forward_end_, id);
    if (optimizer) optimizer_begin_ = std::min(optimizer_begin_, id);
    require(optimizer || optimizer_begin_ > id, "the optimizer phase comes last");
    require(op.phase != Phase::kForward || forward_end_ > id, "the forward phase comes first");
    BoundOp bound;
    for (ValueId v : op.inputs) bound.in.push_back(v == kNone ? Tensor{} : tensor(v));
    for (ValueId v : op.outputs) bound.out.push_back(v == kNone ? Tensor{} : tensor(v));
    if (program_.workspaces[id]) bound.workspace = arena_.at(program_.layout.workspace_offsets[id]);
    bound_.push_back(std::move(bound));
  }
  leads_on_ = ops_that_lead_on(graph, forward_end_);
  for (int s = 1; s < kStreamCount; ++s)
    if (used[s]) workers_.push_back({static_cast<StreamId>(s), {}});
  for (Worker& worker : workers_) worker.thread = std::thread([this, s = worker.stream] { worker_loop(s); });
}

Executor::~Executor() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (Worker& worker : workers_) worker.thread.join();
}

Tensor Executor::tensor(ValueId value) const {
  const Value& v = program_.graph.value(value);
  const uint64_t offset = program_.layout.value_offsets[value];
  // A value on the disk has no address in memory: its `data` is its offset in the file.
  if (v.space == MemorySpace::kDisk) return {reinterpret_cast<void*>(offset), v.shape, v.dtype};
  return {arena_of(v.space).at(offset), v.shape, v.dtype};
}

void Executor::run_micro_batch(const RunState& state) { run(0, optimizer_begin_, state); }

void Executor::run_forward(const RunState& state) {
  require(!state.training, "forward alone is for evaluations");
  run(0, forward_end_, state);
}

void Executor::run_optimizer(const RunState& state) {
  run(optimizer_begin_, static_cast<OpId>(program_.graph.ops().size()), state);
}

void Executor::run(OpId begin, OpId end, const RunState& state) {
  {
    std::lock_guard lock(mutex_);
    ++run_;
    busy_ = static_cast<int>(workers_.size());
    begin_ = begin;
    end_ = end;
    state_ = &state;
    failed_ = false;
    error_ = nullptr;
  }
  wake_.notify_all();
  run_stream(StreamId::kCompute, begin, end, state);
  const auto finished = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return busy_ == 0; });
  if (!workers_.empty() && state.training) join_seconds_ += seconds_since(finished);
  if (error_) std::rethrow_exception(error_);
}

void Executor::worker_loop(StreamId stream) {
  uint32_t finished = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || run_ != finished; });
    if (stopping_) return;
    finished = run_;
    const OpId begin = begin_, end = end_;
    const RunState& state = *state_;
    lock.unlock();
    run_stream(stream, begin, end, state);
    lock.lock();
    if (--busy_ == 0) idle_.notify_all();
  }
}

// After a failure every stream still goes through its ops, marking them done without running them, so that
// nobody waits for ever.
void Executor::run_stream(StreamId stream, OpId begin, OpId end, const RunState& state) {
  HeldUp& held_up = held_up_[static_cast<int>(stream)];
  held_up = {};
  for (OpId id = begin; id < end; ++id) {
    const Op& op = program_.graph.op(id);
    if (op.stream != stream) continue;
    for (OpId before : program_.schedule.waits[id])
      if (before >= begin) wait_for(before, id, state.training);
    began_after_[id] = held_up;
    if (probe_) probe_->before_op(*this, id);
    if (!failed_.load(std::memory_order_acquire)) try {
        run_op(id, state);
      } catch (...) {
        fail(std::current_exception());
      }
    if (probe_) probe_->after_op(*this, id);
    done_[id].store(run_, std::memory_order_release);
    if (program_.schedule.waited_for[id]) done_[id].notify_all();
  }
}

void Executor::run_op(OpId id, const RunState& state) {
  const Op& op = program_.graph.op(id);
  if (op.when == RunWhen::kLastMicroBatch && !state.last_micro_batch()) return;
  if (!state.training && !leads_on_[id]) return;
  const BoundOp& bound = bound_[id];
  program_.kernels[id]->run(
      {.in = bound.in,
       .out = bound.out,
       .workspace = bound.workspace,
       .state = &state,
       .accumulate = op.accumulate == Accumulate::kAlways ||
                     (op.accumulate == Accumulate::kAfterFirstMicroBatch && !state.first_micro_batch())});
  executed_[id] = 1;
}

void Executor::wait_for(OpId before, OpId waiter, bool counts) {
  uint32_t seen = done_[before].load(std::memory_order_acquire);
  if (seen == run_) return;
  const auto start = std::chrono::steady_clock::now();
  while (seen != run_) {
    done_[before].wait(seen, std::memory_order_acquire);
    seen = done_[before].load(std::memory_order_acquire);
  }
  const auto end = std::chrono::steady_clock::now();
  const StreamId stream = program_.graph.op(waiter).stream;
  if (counts) wait_seconds_[waiter] += seconds_between(start, end);
  if (stream != StreamId::kCompute)
    held_up_[static_cast<int>(stream)] = {end, before};
  else if (counts)
    expose(before, start, end);
}

// The compute stream stood from `start` to `end`, for op `before`. Whatever of that time the op's own stream
// had stood for another one is the other's doing, and so on.
void Executor::expose(OpId before, Time start, Time end) {
  double& seconds = exposed_seconds_[static_cast<int>(program_.graph.op(before).stream)];
  const HeldUp& cause = began_after_[before];
  if (cause.until <= start || program_.graph.op(cause.by).stream == StreamId::kCompute) {
    seconds += seconds_between(start, end);
    return;
  }
  seconds += seconds_between(cause.until, end);
  expose(cause.by, start, cause.until);
}

double Executor::total_exposed_seconds() const {
  return std::accumulate(exposed_seconds_.begin(), exposed_seconds_.end(), join_seconds_);
}

void Executor::fail(std::exception_ptr error) {
  std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);  // the first failure is the cause; later ones are its echo
  failed_.store(true, std::memory_order_release);
}

MemoryLedger Executor::measured() const {
  const Graph& graph = program_.graph;
  const std::vector<Span> spans = op_spans(graph, program_.schedule);
  std::vector<Block> blocks;
  std::vector<int> block_of(graph.values().size(), -1);
  const auto touch = [&](ValueId v, const Tensor& tensor, const Span& span) {
    const Value& value = graph.value(v);
    const uint64_t offset = value.space == MemorySpace::kDisk ? reinterpret_cast<uint64_t>(tensor.data)
                                                              : arena_of(value.space).offset_of(tensor.data);
    int& index = block_of[v];
    if (index < 0) {
      index = static_cast<int>(blocks.size());
      blocks.push_back({.bytes = block_bytes(tensor.bytes(), value.space),
                        .category = value.category,
                        .begin = span.begin,
                        .end = span.end,
                        .offset = offset,
                        .space = value.space,
                        .pooled = value.pooled});
    }
    blocks[index].begin = std::min(blocks[index].begin, span.begin);
    blocks[index].end = std::max(blocks[index].end, span.end);
  };
  for (OpId id = 0; id < static_cast<OpId>(graph.ops().size()); ++id) {
    if (!executed_[id]) continue;
    const Op& op = graph.op(id);
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      if (op.inputs[i] != kNone) touch(op.inputs[i], bound_[id].in[i], spans[id]);
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
      if (op.outputs[i] != kNone) touch(op.outputs[i], bound_[id].out[i], spans[id]);
    if (bound_[id].workspace)
      blocks.push_back({.bytes = aligned(program_.kernels[id]->workspace_bytes()),
                        .category = Category::kWorkspace,
                        .begin = spans[id].begin,
                        .end = spans[id].end,
                        .offset = arena_.offset_of(bound_[id].workspace)});
  }
  return ledger_of(graph, std::move(blocks), program_.foretold().persistent_bytes);
}

std::string Executor::find_non_finite(const RunState& state) {
  const Graph& graph = program_.graph;
  std::string first;
  const auto look = [&](ValueId v) {
    if (first.empty() && v != kNone && graph.value(v).space != MemorySpace::kDisk && !finite(tensor(v)))
      first = graph.value(v).name;
  };
  for (OpId id = 0; id < optimizer_begin_; ++id) {
    for (ValueId v : graph.op(id).inputs)
      if (v != kNone && graph.value(v).category != Category::kGradient) look(v);
    run_op(id, state);  // to the end even when found: the other ranks take part in the same collectives
    for (ValueId v : graph.op(id).outputs) look(v);
  }
  return first;
}

}  // namespace recollect
