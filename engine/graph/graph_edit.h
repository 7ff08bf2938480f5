// Changes to the program order of a graph, made all at once: until commit() every op keeps its id and the
// graph its list, so that a pass may walk through it while it says what is to change. New ops have ids behind
// those of the graph, and may be places for others too.
#pragma once

#include <vector>

#include "engine/graph/graph.h"

namespace recollect {

class GraphEdit {
 public:
  explicit GraphEdit(Graph& graph);

  const Op& op(OpId id) const;
  Op& op(OpId id);

  // Outputs that the op lacks become fresh values, as in Graph::add_op. Of several ops inserted at one place
  // the first comes first.
  OpId insert_before(OpId place, Op op);
  OpId insert_after(OpId place, Op op);

  void move_after(OpId id, OpId place);
  // Beside which op this one stands now: itself where it was not moved.
  OpId place(OpId id) const { return spots_.at(id).place; }

  void drop(OpId id);  // nothing else may read what it made
  void replace_input(OpId id, ValueId from, ValueId to);

  void commit();  // at the end of the edit's life

 private:
  struct Spot {
    OpId place = kNone;
    std::vector<OpId> before = {}, after = {};
    bool dropped = false;
  };

  OpId add(Op op, OpId place);
  void append(OpId id, std::vector<Op>& to);
  void check_dropped() const;

  Graph& graph_;
  std::vector<Op> new_ops_;
  std::vector<Spot> spots_;  // by op
};

}  // namespace recollect
