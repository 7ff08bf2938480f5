// What a snapshot knows of the run that saved it, and the model in it as any layout of ranks has it. Nothing is
// computed, and nothing of the run's data is opened.
#pragma once

#include <string>

#include "launch/config/config.h"
#include "launch/program/model_graph.h"
#include "parallel/snapshot/manifest.h"

namespace recollect {

struct SavedRun {
  Config config;
  // Folders and files that the configuration names for the model, where they are not there any more: what they say
  // beside the model's shape is not known.
  bool model_files_are_gone = false;
};

// Error kInput where the configuration is none of this program's; `folder` is named then.
SavedRun saved_run(const Manifest& manifest, const std::string& folder);

// How many ranks share what.
struct RankLayout {
  int64_t tensor = 1, data = 1;
  int world() const { return static_cast<int>(tensor * data); }
  bool operator==(const RankLayout&) const = default;
};
RankLayout layout_of(const Manifest& manifest);
// As a manifest has them.
std::map<std::string, int64_t> axes_of(Config config, const RankLayout& layout);

// The model's graph, forward alone, of the first rank. Error kConfiguration where the model does not divide so.
ModelGraph model_of_layout(Config config, const RankLayout& layout);

}  // namespace recollect
