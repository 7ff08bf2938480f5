// For every activation that backward needs: is it saved or recomputed, and if saved, where. A plan is data:
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
  bool save = true;        // otherwise it is recomputed from what is saved
  bool partition = false;  // each tensor rank saves 1/t of it
  bool host = false;       // it waits in host memory
  bool disk = false;       // it waits on the disk; with `host`, host memory is the buffer on its way
  bool operator==(const Decision&) const = default;
};

// What a recomputation on the way to a layer leaves behind for the layers before it.
enum class Replay {
  kSegment,   // everything: each value is recomputed once
  kBisect,    // the midpoints on the way: log n layer inputs are held, n/2 log n layers run again
  kNothing,   // nothing: every layer's backward starts again from what is saved
  kBinomial,  // as many layer inputs as the plan saves, at any time, where they spare the most (binomial.h)
};
std::string_view name_of(Replay replay);

// The word of a plan file: "recompute", "device", or where it goes on its way: "partitioned+host+disk", or
// some of that.
std::string word_of(const Decision& decision);

struct Plan {
  std::map<std::string, Decision> values;  // by name: all of SavedActivations::values()
  Replay replay = Replay::kSegment;
  bool operator==(const Plan&) const = default;
};

// What backward uses in place of an activation that did not stay where it was made: the same bits,
// recomputed, gathered or fetched.
struct Reproduction {
  ValueId original = kNone;
  ValueId again = kNone;
};

// YAML; one line a value.
std::string to_yaml(const Plan& plan);

}  // namespace recollect
