// What no single key can know: whether the keys fit each other, and whether they fit the number of ranks.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "engine/io/problems.h"
#include "engine/runtime/cuda/device.h"
#include "launch/config/config.h"

namespace recollect {

// What this build of the program can run.
struct BuildFeatures {
  bool cuda = cuda::is_built();
};
// Of those who run nothing: they plan, show or convert, which every build can do for every backend.
inline constexpr BuildFeatures kAnyBuild{.cuda = true};

std::vector<Finding> validate(const Config& config);

// Whether a build can run it.
std::vector<Finding> check_build(const Config& config, const BuildFeatures& features);

// Completes micro batch, global batch and accumulation from any two of them (global alone: accumulation 1;
// none: micro batch 1, accumulation 1) given data_parallel_size > 0. With findings, the configuration is
// unchanged.
std::vector<Finding> resolve_batch(Config& config);

// The key of origins for an entry of a list in the file: "data.path.0".
std::string origin_of_entry(const std::string& key, std::size_t index);

// Adds the findings to the problems, each at the place where the first of its keys was given. Findings about
// a `broken` key, whose value was refused, would only repeat that.
void report(const std::vector<Finding>& findings, const Config& config, const std::set<std::string>& broken,
            Problems& problems);

// Fits the configuration to a world of that many ranks (processes times ranks_per_process): completes
// data_parallel_size and the batch sizes. Throws Error kConfiguration where world is not data x tensor, or
// the batch sizes disagree. Calling it again with the same world changes nothing.
void resolve_world(Config& config, int world_size);

}  // namespace recollect
