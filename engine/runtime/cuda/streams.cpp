#include "engine/runtime/cuda/streams.h"

#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <cstdio>
#include <memory>

namespace recollect::cuda {

namespace {

// This run of each kind is launched instead of replayed, after all warm-up, to measure its waits.
constexpr int kRunThatShows = 5;

}  // namespace

DeviceStreams::DeviceStreams(StreamOps ops, Graphs graphs)
    : Streams(std::move(ops)),
      graphs_(graphs),
      forked_(cudaEventDisableTiming),
      done_(ops_.graph.ops().size()),
      done_stamps_(ops_.graph.ops().size()),
      stamps_(ops_.graph.ops().size()),
      start_(cudaEventDefault),
      compute_end_(cudaEventDefault),
      end_(cudaEventDefault) {
  for (const Op& op : ops_.graph.ops()) first_samples_.push_back(op.first_sample);
  std::sort(first_samples_.begin(), first_samples_.end());
  first_samples_.erase(std::unique(first_samples_.begin(), first_samples_.end()), first_samples_.end());
  void* states = nullptr;
  check(cudaHostAlloc(&states, states_bytes(), cudaHostAllocDefault), "reserving the run's state");
  pinned_states_ = static_cast<RunState*>(states);
  std::uninitialized_default_construct_n(pinned_states_, first_samples_.size());
  check(cudaMalloc(&device_states_, states_bytes()), "reserving the run's state");
  streams_[static_cast<int>(StreamId::kCompute)].emplace();
  for (OpId id : ops_.graph.op_ids()) {
    const int stream = static_cast<int>(ops_.graph.op(id).stream);
    if (!streams_[stream]) {
      streams_[stream].emplace();
      ended_[stream] = Event(cudaEventDisableTiming);
    }
    if (ops_.schedule.waited_for[id]) {
      done_[id] = Event(cudaEventDisableTiming);
      done_stamps_[id] = Event(cudaEventDefault);
    }
    if (!ops_.schedule.waits[id].empty()) stamps_[id] = {Event(cudaEventDefault), Event(cudaEventDefault)};
  }
}

DeviceStreams::~DeviceStreams() {
  for (auto& stream : streams_)
    if (stream) cudaStreamSynchronize(stream->get());
  for (auto& [kind, replay] : replays_)
    if (replay.graph) cudaGraphExecDestroy(replay.graph);
  cudaFree(device_states_);
  cudaFreeHost(pinned_states_);
}

RunState* DeviceStreams::device_state_of(const Op& op) const {
  return device_states_ + (std::lower_bound(first_samples_.begin(), first_samples_.end(), op.first_sample) -
                           first_samples_.begin());
}

void DeviceStreams::run(OpId begin, OpId end, const RunState& state) {
  for (std::size_t i = 0; i < first_samples_.size(); ++i) {
    pinned_states_[i] = state;
    pinned_states_[i].first_sample += first_samples_[i];
  }
  waits_.begin_run();
  const Kind kind{begin,         end, state.begins, state.first_micro_batch(), state.last_micro_batch(),
                  state.training};
  Replay& replay = replay_of(kind);
  const auto before = exposed();
  const bool replayed = launch(kind, replay, state);
  check(cudaStreamSynchronize(stream_of(StreamId::kCompute)), "running a step");
  if (state.training) {
    account(begin, end);
    if (replay.has_others) account_replay(replay, replayed, before);
  }
  if (timing_) read_times(begin, end);
}

void DeviceStreams::finish(StreamId stream) {
  check(cudaStreamSynchronize(stream_of(stream)), "waiting for a stream");
}

void DeviceStreams::time_ops(bool on) {
  timing_ = on;
  if (!on || !op_begins_.empty()) return;
  for (std::size_t id = 0; id < ops_.graph.ops().size(); ++id) {
    op_begins_.emplace_back(cudaEventDefault);
    op_ends_.emplace_back(cudaEventDefault);
  }
  nothing_begins_.emplace(cudaEventDefault);
  nothing_ends_.emplace(cudaEventDefault);
  times_.ops.reserve(ops_.graph.ops().size());
}

DeviceStreams::Replay& DeviceStreams::replay_of(const Kind& kind) {
  const auto [at, is_new] = replays_.try_emplace(kind);
  if (is_new && std::get<5>(kind))
    for (OpId id = std::get<0>(kind); id < std::get<1>(kind); ++id)
      at->second.has_others |= ops_.graph.op(id).stream != StreamId::kCompute;
  return at->second;
}

bool DeviceStreams::launch(const Kind& kind, Replay& replay, const RunState& state) {
  const bool one_op = std::get<1>(kind) - std::get<0>(kind) == 1;  // a search for a bad value, not for speed
  const bool as_usual = !timing_ && !one_op;
  if (as_usual && graphs_ != Graphs::kNone && ++replay.runs == 2) capture(kind, state, replay);
  const bool shows = replay.has_others && replay.runs == kRunThatShows;
  if (as_usual && replay.graph && !shows) {
    check(cudaGraphLaunch(replay.graph, stream_of(StreamId::kCompute)), "launching a step's graph");
    return true;
  }
  enqueue(kind, state);
  return false;
}

// Captures a run as a graph. If something in the run cannot be captured and graphs are not required, this and
// all later runs go on without graphs.
void DeviceStreams::capture(const Kind& kind, const RunState& state, Replay& replay) {
  const auto compute = stream_of(StreamId::kCompute);
  check(cudaStreamBeginCapture(compute, cudaStreamCaptureModeThreadLocal), "beginning a capture");
  capturing_ = true;
  std::optional<Error> failure;
  try {
    enqueue(kind, state);
  } catch (const Error& error) {
    failure = error;
  }
  capturing_ = false;
  cudaGraph_t graph = nullptr;
  cudaError_t status = cudaStreamEndCapture(compute, &graph);
  if (status == cudaSuccess && !failure) status = cudaGraphInstantiate(&replay.graph, graph, 0);
  if (graph) cudaGraphDestroy(graph);
  if (status == cudaSuccess && !failure) return;
  cudaGetLastError();  // clears the error; it is reported below
  if (failure && failure->code() == ExitCode::kPeerLost) throw *failure;
  const std::string why = failure ? failure->what() : cudaGetErrorString(status);
  if (graphs_ == Graphs::kRequired)
    throw Error(ExitCode::kInternal, "the step cannot be captured as a CUDA graph (" + why + ")",
                "train with device.cuda_graph: off");
  graphs_ = Graphs::kNone;
  std::fprintf(stderr, "recollect: the step cannot be captured as a CUDA graph (%s); going on without\n",
               why.c_str());
}

void DeviceStreams::enqueue(const Kind& kind, const RunState& state) {
  const auto [begin, end, begins, first, last, training] = kind;
  const auto compute = stream_of(StreamId::kCompute);
  stamp(start_, StreamId::kCompute);
  check(cudaMemcpyAsync(device_states_, pinned_states_, states_bytes(), cudaMemcpyHostToDevice, compute),
        "copying the run's state");
  check(cudaEventRecord(forked_.get(), compute), "forking streams");
  for (int s = 1; s < kStreamCount; ++s)
    if (streams_[s]) check(cudaStreamWaitEvent(streams_[s]->get(), forked_.get(), 0), "forking streams");
  if (timing_) {
    stamp(*nothing_begins_, StreamId::kCompute);
    stamp(*nothing_ends_, StreamId::kCompute);
  }
  for (OpId id = begin; id < end; ++id) enqueue_op(id, begin, state);
  stamp(compute_end_, StreamId::kCompute);
  for (int s = 1; s < kStreamCount; ++s) {
    if (!streams_[s]) continue;
    check(cudaEventRecord(ended_[s].get(), streams_[s]->get()), "joining streams");
    check(cudaStreamWaitEvent(compute, ended_[s].get(), 0), "joining streams");
  }
  stamp(end_, StreamId::kCompute);
}

void DeviceStreams::enqueue_op(OpId id, OpId begin, const RunState& state) {
  const Op& op = ops_.graph.op(id);
  const auto stream = stream_of(op.stream);
  nvtxRangePushA(op.name.c_str());
  if (stamps_[id].came) stamp(stamps_[id].came, op.stream);
  for (OpId before : ops_.schedule.waits[id])
    if (before >= begin) check(cudaStreamWaitEvent(stream, done_[before].get(), 0), "waiting for an op");
  if (stamps_[id].began) stamp(stamps_[id].began, op.stream);
  if (timing_) stamp(op_begins_[id], op.stream);
  if (ops_.before) ops_.before(id);
  ops_.run(id, {.state = &state, .device_state = device_state_of(op), .stream = stream});
  if (ops_.after) ops_.after(id);
  if (timing_) stamp(op_ends_[id], op.stream);
  if (done_[id]) {
    stamp(done_stamps_[id], op.stream);
    check(cudaEventRecord(done_[id].get(), stream), "ending an op");
  }
  nvtxRangePop();
}

// In a graph, the time is taken at every replay.
void DeviceStreams::stamp(const Event& event, StreamId stream) {
  const unsigned flags = capturing_ ? cudaEventRecordExternal : cudaEventRecordDefault;
  check(cudaEventRecordWithFlags(event.get(), stream_of(stream), flags), "taking a time");
}

double DeviceStreams::seconds_until(const Event& event) const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start_.get(), event.get()), "reading a time");
  return 1e-3 * milliseconds;
}

// The time between two consecutive events with nothing in between is subtracted from each op.
void DeviceStreams::read_times(OpId begin, OpId end) {
  times_.seconds = seconds_until(end_);
  times_.first = begin;
  times_.ops.clear();
  const double nothing = seconds_until(*nothing_ends_) - seconds_until(*nothing_begins_);
  for (OpId id = begin; id < end; ++id) {
    const double began = seconds_until(op_begins_[id]), ended = seconds_until(op_ends_[id]);
    times_.ops.push_back({began, std::max(began, ended - nothing)});
  }
}

// Reports the waits of a run. An op's stream waited until the last of the ops that the op waits for was done.
void DeviceStreams::account(OpId begin, OpId end) {
  for (OpId id = begin; id < end; ++id) {
    const Stamps& stamps = stamps_[id];
    if (stamps.came) {
      const double came = seconds_until(stamps.came), began = seconds_until(stamps.began);
      OpId last = kNone;
      double last_done = came;
      for (OpId before : ops_.schedule.waits[id]) {
        if (before < begin) continue;
        const double done = seconds_until(done_stamps_[before]);
        if (done <= last_done) continue;
        last = before;
        last_done = done;
      }
      if (last != kNone && began > came) waits_.waited(id, last, came, began, true);
    }
    waits_.begins(id);
  }
  waits_.joined(seconds_until(end_) - seconds_until(compute_end_));
}

DeviceStreams::Exposed DeviceStreams::exposed() const {
  Exposed seconds{};
  for (int s = 0; s < kStreamCount; ++s) seconds[s] = waits_.exposed(static_cast<StreamId>(s));
  seconds.back() = waits_.join();
  return seconds;
}

// In a graph, a node may also wait for nodes that it does not depend on, if the driver puts both into one
// queue; no event shows that. A launched run shows how long the compute stream is busy. What a replay takes
// beyond that is exposed time. It is charged to the streams that the launched run waited for, in the same
// proportions.
void DeviceStreams::account_replay(Replay& replay, bool replayed, const Exposed& before) {
  constexpr double kClocksVary = 0.03;  // how much the busy time varies from step to step, as a fraction
  const double span = seconds_until(end_);
  Exposed seen = exposed();
  double total = 0, parts = 0;
  for (std::size_t s = 0; s < seen.size(); ++s) total += seen[s] -= before[s];
  if (replayed) {
    ++replay.replays;
    replay.span += span;
    replay.seen += total;
  } else if (replay.runs == kRunThatShows && replay.busy == 0) {
    replay.busy = span - total;
    replay.waited = seen;
  }
  if (replay.busy <= 0 || replay.replays == 0) return;
  const double busy = replay.replays * replay.busy, unseen = replay.span - replay.seen - busy;
  replay.replays = 0;
  replay.span = replay.seen = 0;
  if (unseen < kClocksVary * busy) return;
  for (const double seconds : replay.waited) parts += seconds;
  for (int s = 0; s < kStreamCount; ++s)
    if (parts > 0) waits_.add_exposed(static_cast<StreamId>(s), unseen * replay.waited[s] / parts);
  waits_.joined(parts > 0 ? unseen * replay.waited.back() / parts : unseen);
}

}  // namespace recollect::cuda
