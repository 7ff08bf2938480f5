// For every forward value that backward needs: is it kept or recomputed, and if kept, where. A plan is data:
// it prints as YAML, reads back, compares and hashes. Policies make plans (policies.h); passes carry them out
// (recompute.h, residency.h).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"

namespace recollect {

struct Decision {
  bool keep = true;        // otherwise it is recomputed from what is kept
  bool partition = false;  // each tensor rank keeps 1/t of it
  bool host = false;       // it waits in host memory
  bool disk = false;       // it waits on the disk; with `host`, host memory is the buffer on its way
  bool operator==(const Decision&) const = default;
};

// What a recomputation on the way to a layer leaves behind for the layers before it.
enum class Replay {
  kSegment,  // everything: each value is recomputed once
  kBisect,   // the midpoints on the way: log n layer inputs are held, n/2 log n layers run again
  kNothing,  // nothing: every layer's backward starts again from what is kept
};
std::string_view name_of(Replay replay);

// The word of a plan file: "recompute", "device", or where it goes on its way: "partitioned+host+disk", or
// some of that.
std::string word_of(const Decision& decision);

struct Plan {
  std::map<std::string, Decision> values;  // by name: every value of saved_values()
  Replay replay = Replay::kSegment;
  bool operator==(const Plan&) const = default;
};

// What backward uses in place of a value that was not kept where it was made: the same bits, made or brought
// again.
struct Reproduction {
  ValueId original = kNone;
  ValueId again = kNone;
};

// A number a row, beside what an op is for: not worth making again, nor storing with fewer bits.
bool is_statistic(const Graph& graph, ValueId v);

// A value that was put together of the tensor ranks' parts. It is never saved: a rank keeps its part, and
// backward gathers it again (recompute.h).
bool is_gathered(const Graph& graph, ValueId v);

// The forward values that backward reads, or gathers what it reads from, and that could be recomputed, in
// program order.
std::vector<ValueId> saved_values(const Graph& graph);

// The value that layer i takes from what is before it, by layer; of the layers of the graph.
std::vector<ValueId> layer_inputs(const Graph& graph);

// YAML; one line a value.
std::string to_yaml(const Plan& plan);

}  // namespace recollect
