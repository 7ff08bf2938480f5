// Trains a small configuration in this process, with rank threads where the layout asks for several ranks, and returns
// everything that a comparison wants to see.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/runtime/ledger.h"
#include "launch/session.h"

namespace recollect::test {

using Tensors = std::map<std::string, std::vector<double>>;  // by the names of the model's files

struct Trained {
  std::vector<StepResult> steps;
  Tensors gradients;   // of the first step, whole, before clipping
  Tensors parameters;  // after the last step, whole
  std::vector<MemoryLedger> foretold, measured;  // by rank
};

// `overrides` are "section.key=value" words on top of `yaml`. Runs training.max_steps steps on as many ranks as
// parallelism.ranks_per_process says.
Trained train(const std::string& yaml, const std::vector<std::string>& overrides = {});

// A tiny model on random tokens in double precision on the reference backend.
extern const char* const kTinyYaml;

// The largest difference between two tensors of one name, relative to that tensor's largest element. Fails the test
// where names or sizes differ.
double largest_difference(const Tensors& a, const Tensors& b);

Tensors read_tensors(const std::string& path, const std::string& prefix);

}  // namespace recollect::test
