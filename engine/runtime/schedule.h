// When each op of a graph may run. Ops are issued in program order, each to its own stream; streams run in
// order and beside each other. An op waits for earlier ops of other streams whose results it reads or whose
// operands it overwrites; these waits are derived here, from the graph, and from nothing else.
#pragma once

#include <limits>
#include <vector>

#include "engine/graph/graph.h"

namespace recollect {

struct Schedule {
  std::vector<std::vector<OpId>> waits;  // by op: at most one op of each other stream
  std::vector<char> waited_for;          // by op: does any op wait for it?
};

Schedule make_schedule(const Graph& graph);

// The span of an op on the compute stream's clock: op i of the compute stream runs at tick 2i. An op of
// another stream begins no earlier than `begin` and is known to have ended by `end`.
struct Span {
  int64_t begin = 0;
  int64_t end = 0;
};
inline constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

std::vector<Span> op_spans(const Graph& graph, const Schedule& schedule);

}  // namespace recollect
