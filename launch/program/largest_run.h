// Finds the largest run that fits its limits: one size of a configuration grows while its program fits. The
// program is planned anew for every size. The search assumes that smaller sizes fit if a larger one fits.
#pragma once

#include <array>
#include <string>

#include "launch/config/config.h"

namespace recollect {

enum class RunSize { kMicroBatch, kSequenceLength, kLayers };
// The names in the options --max-NAME.
template <>
inline constexpr std::array<std::string_view, 3> kSpellings<RunSize> = {"micro-batch", "sequence-length",
                                                                        "layers"};

// The largest number of tokens in a micro-batch that is tried.
inline constexpr int64_t kMostTokens = 1 << 24;

struct LargestRun {
  int64_t value = 0;          // 0: even `smallest` does not fit
  std::string settings = {};  // that set it: "training.micro_batch_size=14"
  int64_t smallest = 1;       // value that the configuration allows
  std::string bound = {};     // why nothing larger was tried; empty if the next one does not fit
};

// Accumulation and ranks do not change. Throws kConfiguration if there is no limit, or if an activation
// checkpointing setting has no effect in the given or a larger run.
LargestRun largest_run(const Config& resolved, RunSize size);

}  // namespace recollect
