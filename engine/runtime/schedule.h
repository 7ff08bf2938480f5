// The schedule says when each op of a graph may run. Ops are issued in program order, each to its own stream.
// A stream runs its ops in order; streams run concurrently. An op waits for earlier ops of other streams
// whose results it reads or whose operands it overwrites. These waits are derived here, from the graph alone.
#pragma once

#include <limits>
#include <vector>

#include "engine/graph/graph.h"

namespace recollect {

struct Schedule {
  std::vector<std::vector<OpId>> waits;  // by op: at most one op of each other stream
  std::vector<char> waited_for;          // by op: true if some op waits for it
};

Schedule make_schedule(const Graph& graph);

// The lifetime of an op on the compute stream's clock: op i of the compute stream runs at tick 2i. An op of
// another stream begins at `begin` or later and has certainly ended by `end`.
struct Span {
  int64_t begin = 0;
  int64_t end = 0;
};
inline constexpr int64_t kForever = std::numeric_limits<int64_t>::max();

std::vector<Span> op_spans(const Graph& graph, const Schedule& schedule);

}  // namespace recollect
