// The largest run that fits its limits: one size of a configuration grows while its program, planned anew for every
// size that is tried, fits. What fits is taken to fit with less of that size too.
#pragma once

#include <array>
#include <string>

#include "launch/config/config.h"

namespace recollect {

enum class RunSize { kMicroBatch, kSequenceLength, kLayers };
// In the words of an option, --max-NAME.
template <>
inline constexpr std::array<std::string_view, 3> kSpellings<RunSize> = {"micro-batch", "sequence-length",
                                                                        "layers"};

// No more tokens are tried in a micro-batch.
inline constexpr int64_t kMostTokens = 1 << 24;

struct LargestRun {
  int64_t value = 0;          // 0: even `smallest` does not fit
  std::string settings = {};  // that make it: "training.micro_batch_size=14"
  int64_t smallest = 1;       // that the rest of the configuration allows
  std::string bound = {};     // why nothing larger was tried; empty where the next larger one does not fit
};

// Accumulation and ranks stay. Error kConfiguration where there is no limit, or a setting of activation
// checkpointing has no effect in the given or a larger run.
LargestRun largest_run(const Config& resolved, RunSize size);

}  // namespace recollect
