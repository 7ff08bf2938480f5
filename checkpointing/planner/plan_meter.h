// What the program of a plan takes that lets nothing wait elsewhere: the ops that run again, one by one in the order in which
// recompute.h has them run, and the most bytes that are alive at one of them. It takes microseconds and makes no graph.
//
// Bytes are those of the layout's lifetimes (layout.cpp): a layout may add gaps, and passes behind this one may add values.
// So a program takes no less where all ops of forward and backward are on the compute stream (is_bound).
#pragma once

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
  // A layer by itself. Its input is there, and counted here if a layer makes it. What is made on the way to the layers after it,
  // if these want what it ends with, is forgotten before its own backward, or not, as the replay says.
  struct LayerReading {
    double again = 0, pass = 0;          // seconds: for its own backward, and on that way
    uint64_t held = 0;                   // bytes of what is saved, from forward on
    uint64_t passed = 0;                 // of what is made on the way and waits for its own backward
    uint64_t alone = 0;                  // at the peak of its own backward, with both
    uint64_t on_the_way = 0;             // at the peak there, with what is saved
    bool passes = false, reads = false;  // whether its input is wanted on the way, and by its own backward
  };
  // `saved`: what is saved of the layer; `wanted`: whether a layer after it wants what it ends with.
  LayerReading read_layer(const std::vector<ValueId>& saved, int layer, bool wanted, bool forgets);
  // Equal of layers that have the same readings, but of the first and the last one.
  uint64_t likeness(int layer) const;
  // What is there at each op of a layer's backward, whatever the plan: of values that no layer makes.
  uint64_t outside_of_layers() const { return outside_of_layers_; }

  // Of the plan, or the layer, that was read last.
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
  // The most before the step, and from it on.
  std::pair<uint64_t, uint64_t> most_around(int first, uint64_t now);
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

  std::vector<std::vector<OpId>> backward_;  // by layer
  std::vector<int> layers_of_;               // by value: that makes it, or -1
  uint64_t outside_of_layers_ = 0;

  // Of the plan that is read.
  bool is_at_rest_ = false;  // there_ and stored_ say that nothing is saved, nor made
  OpId of_forward_ops_ = 0;  // that were looked at
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
