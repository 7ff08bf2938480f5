// What the program of a plan takes that lets nothing wait elsewhere: the ops that run again, one by one in the order in which
// recompute.h has them run, and the most bytes that are alive at one of them. It takes microseconds and makes no graph.
//
// Bytes are those of the layout's lifetimes (layout.cpp): a layout may add gaps, and passes behind this one may add values.
// So a program takes no less where all ops of forward and backward are on the compute stream (is_bound).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "checkpointing/planner/draft_plan.h"
#include "checkpointing/saved_activations.h"
#include "engine/graph/op_def.h"

namespace recollect {

class PlanMeter {
 public:
  // `again`: by op, seconds where it runs again; `counts`: by value, whether it takes bytes of its own between its first
  // op and its last; `workspaces`: by op, bytes.
  PlanMeter(const Graph& graph, const SavedActivations& saved, const std::vector<double>& again,
            const std::vector<char>& counts, const std::vector<uint64_t>& workspaces);

  struct Reading {
    double again = 0;     // seconds of ops that run again
    uint64_t device = 0;  // bytes at the peak, beside what persists
  };
  // Nothing where a step would have too many ops, or ranks gather values again.
  std::optional<Reading> read(const DraftPlan& plan);
  // One layer alone. Its input is present, and counted here if a layer computes it. If later layers need the layer's
  // output, the values recomputed for it are forgotten before the layer's own backward, or kept for it (`forgets`).
  struct LayerReading {
    double again = 0, pass = 0;  // seconds of recomputation: for its own backward, for later layers
    uint64_t held = 0;           // bytes of the saved values, from forward on
    uint64_t passed = 0;         // bytes recomputed for later layers and kept for its own backward
    uint64_t alone = 0;          // peak of its own backward before it needs its input, with held and passed
    uint64_t late = 0;           // the same, from then on; 0 if it does not need its input
    uint64_t on_the_way = 0;     // peak while it is recomputed for later layers, with held
    bool passes = false, reads = false;  // whether its input is needed for later layers, by its own backward
  };
  // `saved`: the values of the layer that are saved; `wanted`: whether a later layer needs the layer's output.
  LayerReading read_layer(const std::vector<ValueId>& saved, int layer, bool wanted, bool forgets);
  // Equal for layers with the same readings, except the first and the last layer.
  uint64_t likeness(int layer) const;
  // Bytes that are in use at every op of a layer's backward, whatever the plan: values that no layer computes.
  uint64_t outside_of_layers() const { return outside_of_layers_; }

  // Ops that were visited for the last plan or layer.
  int64_t ops() const { return of_forward_ops_ + static_cast<int64_t>(steps_.size()); }
  // Whether no program of a plan takes less.
  bool is_bound() const { return is_bound_; }

 private:
  // A value of the step: of the graph, or one that was made again.
  using Item = int;
  // {output, input}, values: the one may take over the other's storage.
  using Handing = std::pair<ValueId, ValueId>;
  struct MeteredOp {
    int inputs = 0, outputs = 0,
        end = 0;  // places in values_: outputs follow inputs; without what matters to nobody
    int layer = -1;
    uint64_t workspace = 0;
    double again = 0;
    std::vector<std::pair<int, int>> in_place = {};  // as OpDef's, places behind `inputs`
  };
  struct Step {
    OpId op = kNone;
    int begin = 0;  // of its items: inputs, then outputs
  };
  struct Stored {
    uint64_t bytes = 0;
    int last = -1;  // the step behind which it is gone
  };

  MeteredOp metered(const Graph& graph, OpId id, double again, uint64_t workspace);
  void note_forward();
  void note_layers(const Graph& graph);
  void begin(const DraftPlan& plan);
  void enter(int layer);
  Item values() const { return static_cast<Item>(bytes_.size()); }
  void add_step(OpId id);
  void run_backward(OpId id);
  void add_item(Item item);
  void make(ValueId v);
  void run_again(OpId id);
  uint64_t peak();
  // The peaks before step `first`, from there to before `second`, and from there on.
  std::array<uint64_t, 3> most_around(int first, int second, uint64_t now);
  LayerReading read_at_rest(int layer, bool wanted, bool forgets);
  uint64_t peak_of_forward();
  uint64_t handed_over(const Step& step, int number);

  const SavedActivations& analysis_;
  bool is_bound_ = true, has_gathers_ = false;
  std::vector<MeteredOp> ops_;
  OpId forward_ = 0;               // ops of forward, which come first
  std::vector<ValueId> operands_;  // of ops
  std::vector<uint64_t> bytes_;    // by value: 0 for what does not count
  std::vector<Stored> at_rest_;    // by value
  std::vector<char> can_be_made_;  // by value: by an op of forward
  std::vector<Item> at_first_;     // by value: what is there of it where nothing is saved
  std::vector<char> one_stream_;   // by value
  std::vector<OpId> producers_;    // by value
  std::vector<char> of_forward_;   // by value
  // Of forward where no value waits for backward, by op: bytes without storage that is taken over, and what may be.
  std::vector<uint64_t> forward_bytes_;
  std::vector<std::vector<Handing>> handings_;
  std::vector<OpId> forward_end_;  // by value: the last op of forward that touches it

  std::vector<std::vector<OpId>> backward_;  // by layer: its ops
  std::vector<int> layers_of_;               // by value: the layer that computes it, or -1
  uint64_t outside_of_layers_ = 0;

  // Of the plan that is read.
  bool is_at_rest_ = false;  // there_ and stored_ hold no saved and no recomputed value
  OpId of_forward_ops_ = 0;  // ops of forward that were visited
  Replay replay_ = Replay::kSegment;
  std::vector<Item> there_;       // by value: itself, its newest clone, or -1 where it is missing
  std::vector<char> held_;        // by value: its clone outlives the layer
  std::vector<ValueId> made_;     // those of which there are clones
  std::vector<Step> steps_;       // of backward
  std::vector<Item> items_;       // of steps, and room for more
  std::size_t item_count_ = 0;    // of these
  std::vector<Stored> stored_;    // by item, the graph's values first
  std::vector<ValueId> waiting_;  // what backward reads as forward made it
  std::vector<uint64_t> more_;    // by op of forward: what waits from there on
  std::vector<OpId> to_make_;
  std::vector<Item> taken_;
  int64_t inputs_at_a_time_ = 0;
  int layer_ = -2;
  double again_ = 0;
};

}  // namespace recollect
