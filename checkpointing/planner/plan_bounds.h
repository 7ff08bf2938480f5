// What the program of a plan takes at least, by proof and not by estimate: a search may leave a plan untried for it.
//
// Seconds: every op of the compute stream that runs in all micro-batches (least_durations in op_time.h), and each op that
// makes again what the plan does not save, once; where a plan forgets what recomputation passes, the layers that it must
// pass again, if it does so as seldom as can be (binomial.h).
// What leaves the device is out before forward's last op begins, and comes back when forward is over: each link takes what
// it takes for that.
// Device bytes: at every op what it reads, writes and works with, and all that lives across it whatever the plan, and
// what the plan keeps on the device. Values may share storage where an op allows it: those do not count twice.
//
// Where halves of a batch take turns both of them run every op that depends on the batch, and behind the layers, where what
// waits is most, both have what the plan keeps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "checkpointing/device_model.h"
#include "checkpointing/planner/draft_plan.h"
#include "checkpointing/planner/plan_meter.h"
#include "checkpointing/saved_activations.h"
#include "engine/graph/op_def.h"

namespace recollect {

// How values are stored that wait for backward.
struct Storage {
  int64_t tensor_size = 1;
  int64_t keep_last = -1;  // layers at the end whose values stay; -1: open (choose.h)
  int64_t halves = 1;      // the graph is that of one of so many, which take turns (batch_halves.h)
};

struct PlanBounds {
  double seconds = 0;   // of a micro-batch, without the optimizer
  uint64_t device = 0;  // bytes, beside what persists
  uint64_t host = 0, disk = 0;
};

// Makes bounds for the plans of one differentiated graph.
class BoundMaker {
 public:
  // `workspaces`: by op, bytes.
  BoundMaker(const Graph& graph, const SavedActivations& saved, const DeviceModel& device,
             const Storage& storage, const std::vector<uint64_t>& workspaces);

  PlanBounds of(const DraftPlan& plan) const;
  // What a plan takes that lets nothing wait elsewhere, but for what passes behind it add; nothing of others.
  std::optional<PlanBounds> metered(const DraftPlan& plan) const;
  // The same where that is a bound, too: closer than of(), and more work.
  std::optional<PlanBounds> closer(const DraftPlan& plan) const;
  // Null where the meter cannot read plans of this graph.
  PlanMeter* meter() const { return meter_.get(); }
  // Of the plan that was metered last: the work that it was.
  int64_t metered_ops() const { return meter_ ? meter_->ops() : 0; }

  // Of ops, wherever they run again: of forward on any stream; of the others 0 but on the compute stream.
  const std::vector<double>& op_seconds() const { return op_seconds_; }
  // Of a micro-batch in which nothing runs again.
  double step_seconds() const { return step_seconds_; }
  // An op of forward.
  bool can_run_again(const Op& op) const;
  // Of the ops that make `wanted` again from what is saved, each once; notes in `read` what they find saved. Where
  // `only_layers`, what lies outside the layers is there.
  double recomputation(const std::vector<char>& is_saved, std::vector<ValueId> wanted, bool only_layers,
                       std::vector<char>* read = nullptr) const;
  // Device bytes between forward and backward of a value that is saved so, of both halves where there are such.
  uint64_t held_bytes(ValueId v, const Decision& decision) const;
  // Whether an op of a layer's backward reads it.
  bool is_for_layers(ValueId v) const { return for_layers_[v]; }
  // Of a value, that wait at a time: of each half one, if it depends on the batch.
  int64_t copies(ValueId v) const { return of_batch_[static_cast<std::size_t>(v)] ? storage_.halves : 1; }
  // Where all layers' forward is over: what is there beside saved activations.
  uint64_t behind_layers() const { return behind_layers_; }

 private:
  // One that a plan decides on, or that tensor ranks gather again: forward ends with it, backward begins.
  struct Waiting {
    ValueId value = kNone;
    int layer = -1;  // that it begins, or is made in
    bool begins = false;
    OpId forward_end = 0;
    std::vector<OpId> readers;  // in backward, by program order, each once
  };
  using Changes = std::vector<int64_t>;  // by op: bytes more from this one on

  void note_values(OpId last_of_layers);
  double runs_of(const Op& op) const;
  bool counts(ValueId v) const;
  bool is_missing(ValueId v, const std::vector<char>& is_saved, bool only_layers) const;
  uint64_t stored_bytes(ValueId v, const Decision& decision) const;
  uint64_t held_by_one(ValueId v, const Decision& decision) const;  // of the halves
  std::vector<int> ends_of_segments(const DraftPlan& plan) const;
  double forgotten(const DraftPlan& plan, const std::vector<char>& is_saved) const;
  void add_waiting(std::size_t place, const Decision& decision, const std::vector<int>& ends,
                   const std::vector<char>& read, Changes& changes) const;
  struct Moved;
  Moved moved(const DraftPlan& plan, const std::vector<int>& ends, const std::vector<char>& read) const;
  static void add(Changes& changes, OpId from, OpId to, uint64_t bytes);

  const Graph& graph_;
  const SavedActivations& saved_;
  const DeviceModel& device_;
  Storage storage_;
  std::unique_ptr<PlanMeter> meter_;
  std::vector<double> op_seconds_;
  std::vector<char> for_layers_;   // by value
  std::vector<Waiting> waiting_;   // by place among the saved activations
  Changes always_;                 // whatever the plan
  std::vector<OpId> backward_;     // by layer: its first op there
  std::vector<char> of_batch_;     // by value
  std::vector<int> input_places_;  // by layer: of its input among the saved activations
  OpId behind_ = 0;                // the first op behind the layers' forward
  double step_seconds_ = 0, forward_seconds_ = 0;
  uint64_t behind_layers_ = 0;
};

}  // namespace recollect
