// The configuration of the run that saved a snapshot, and the graph of its model for any layout of ranks.
// Nothing is computed, and the run's data is not opened.
#pragma once

#include <string>

#include "launch/config/config.h"
#include "launch/program/model_graph.h"
#include "parallel/snapshot/manifest.h"

namespace recollect {

struct SavedRun {
  Config config;
  // True if folders or files that the configuration names for the model no longer exist. Then only the shape
  // of the model is known.
  bool model_files_are_gone = false;
};

// Throws kInput, naming `folder`, if this program cannot read the configuration.
SavedRun saved_run(const Manifest& manifest, const std::string& folder);

// The number of ranks on each axis.
struct RankLayout {
  int64_t tensor = 1, data = 1;
  int world() const { return static_cast<int>(tensor * data); }
  bool operator==(const RankLayout&) const = default;
};
RankLayout layout_of(const Manifest& manifest);
// The axes in the form of a manifest.
std::map<std::string, int64_t> axes_of(Config config, const RankLayout& layout);

// The forward graph of the model on the first rank. Throws kConfiguration if the model cannot be sharded like
// this.
ModelGraph model_of_layout(Config config, const RankLayout& layout);

}  // namespace recollect
