// Streams that are queues of one GPU. The calling thread enqueues all ops of a run in program order, each
// after the events of the ops that it waits for, and then waits for the end. What is enqueued depends only on
// the kind of run (which ops, first or last micro-batch, training). Each kind is therefore captured as a CUDA
// graph when it comes for the second time, and replayed from then on. The exception is one later run of a
// kind with side streams: it is launched, because only a launched run shows what it waits for
// (account_replay).
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "engine/runtime/cuda/device.h"
#include "engine/runtime/cuda/event.h"
#include "engine/runtime/streams.h"

namespace recollect::cuda {

class DeviceStreams final : public Streams {
 public:
  DeviceStreams(StreamOps ops, Graphs graphs);
  ~DeviceStreams() override;

  void run(OpId begin, OpId end, const RunState& state) override;
  void* native(StreamId stream) override { return stream_of(stream); }
  void finish(StreamId stream) override;
  void time_ops(bool on) override;
  const RunTimes* times() const override { return timing_ ? &times_ : nullptr; }

 private:
  // Begin, end, RunState::begins, first micro-batch, last micro-batch, training.
  using Kind = std::tuple<OpId, OpId, bool, bool, bool, bool>;
  using Exposed = std::array<double, kStreamCount + 1>;
  struct Replay {
    int runs = 0;
    cudaGraphExec_t graph = nullptr;
    bool has_others = false;  // has ops of side streams, in training
    // From the launched run of this kind: the seconds in which the compute stream did not wait (0 before that
    // run), and the seconds that it waited for each stream; the last entry is the wait at the end for all of
    // them.
    double busy = 0;
    Exposed waited = {};
    // Sums over the replays that account_replay() has not charged yet.
    int replays = 0;
    double span = 0, seen = 0;
  };
  // When a stream reached an op that waits, and when it continued.
  struct Stamps {
    Event came, began;
  };

  RunState* device_state_of(const Op& op) const;
  uint64_t states_bytes() const { return first_samples_.size() * sizeof(RunState); }
  cudaStream_t stream_of(StreamId stream) const { return streams_[static_cast<int>(stream)]->get(); }
  Replay& replay_of(const Kind& kind);
  bool launch(const Kind& kind, Replay& replay, const RunState& state);  // returns true if it was replayed
  void capture(const Kind& kind, const RunState& state, Replay& replay);
  void enqueue(const Kind& kind, const RunState& state);
  void enqueue_op(OpId id, OpId begin, const RunState& state);
  void stamp(const Event& event, StreamId stream);
  void account(OpId begin, OpId end);
  Exposed exposed() const;
  void account_replay(Replay& replay, bool replayed, const Exposed& before);
  void read_times(OpId begin, OpId end);
  double seconds_until(const Event& event) const;

  Graphs graphs_;
  bool capturing_ = false;
  std::array<std::optional<Stream>, kStreamCount> streams_;
  // The state of a run, copied from the host to the device when it begins: one entry for each place in the
  // micro-batch at which ops begin (Op::first_sample), in ascending order.
  RunState* pinned_states_ = nullptr;
  RunState* device_states_ = nullptr;
  std::vector<int64_t> first_samples_;
  Event forked_;                           // all streams begin after it
  std::array<Event, kStreamCount> ended_;  // by side stream
  std::vector<Event> done_;                // by op that others wait for: orders streams
  std::vector<Event> done_stamps_;         // the same, with a time
  std::vector<Stamps> stamps_;             // by op that waits for others
  Event start_, compute_end_, end_;        // of a run, with times
  std::map<Kind, Replay> replays_;

  bool timing_ = false;                                 // runs are enqueued op by op, with the events below
  std::vector<Event> op_begins_, op_ends_;              // by op; made on first use
  std::optional<Event> nothing_begins_, nothing_ends_;  // nothing between them: what two events take
  RunTimes times_;
};

}  // namespace recollect::cuda
