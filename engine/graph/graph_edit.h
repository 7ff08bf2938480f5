// A GraphEdit collects changes to the program order of a graph and makes them all at once. Until commit()
// every op keeps its id and the graph its list, so a pass can walk through the graph while it records
// changes. New ops have ids after those of the graph; other ops can be placed next to them.
#pragma once

#include <vector>

#include "engine/graph/graph.h"

namespace recollect {

class GraphEdit {
 public:
  explicit GraphEdit(Graph& graph);

  const Op& op(OpId id) const;
  Op& op(OpId id);

  // Outputs that the op lacks become new values, as in Graph::add_op. Several ops inserted at one place keep
  // the order of insertion.
  OpId insert_before(OpId place, Op op);
  OpId insert_after(OpId place, Op op);

  void move_after(OpId id, OpId place);
  // Returns the op next to which this one stands now: itself if it was not moved.
  OpId place(OpId id) const { return spots_.at(id).place; }

  void replace_input(OpId id, ValueId from, ValueId to);

  void commit();  // makes the changes; call it last

 private:
  struct Spot {
    OpId place = kNone;
    std::vector<OpId> before = {}, after = {};
  };

  OpId add(Op op, OpId place);
  void append(OpId id, std::vector<Op>& to);

  Graph& graph_;
  std::vector<Op> new_ops_;
  std::vector<Spot> spots_;  // by op
};

}  // namespace recollect
