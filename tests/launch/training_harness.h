// Trains a small configuration in this process, with rank threads where the layout asks for several ranks,
// and returns everything that a comparison wants to see.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/runtime/ledger.h"
#include "launch/train/session.h"
#include "tests/engine/temporary_folder.h"

namespace recollect::test {

using Tensors = std::map<std::string, std::vector<double>>;  // by the names of the model's files

struct Trained {
  std::vector<StepResult> steps;
  std::vector<EvaluationResult> evaluations;
  Tensors gradients;                              // of the first step, whole, before clipping
  Tensors parameters;                             // after the last step, whole
  std::vector<MemoryLedger> predicted, measured;  // by rank
  std::vector<uint64_t> communication_buffers;    // by rank
};

// `overrides` are "section.key=value" words on top of `yaml`. Runs training.max_steps steps on as many ranks
// as parallelism.ranks_per_process says, and evaluates where the configuration says so. `parts` may exchange
// parts of each rank's session; it is called on the rank's thread.
Trained train(const std::string& yaml, const std::vector<std::string>& overrides = {},
              const std::function<ProgramParts(int rank)>& parts = {});

// Calls `body` with the session of every rank of that configuration, each on its thread, and with the
// configuration as that rank has it.
void on_ranks(const Config& config, const std::function<void(const Config&, Session&)>& body,
              const std::function<ProgramParts(int rank)>& parts = {});

// Fails the test unless both trained to the same bits, and `b` in the memory that was predicted.
void expect_same_bits(const Trained& a, const Trained& b, const std::string& what);

// A key of that section, as a command line names it.
inline std::string ac(const std::string& word) { return "activation_checkpointing." + word; }

// A tiny model on random tokens in double precision on the reference backend.
extern const char* const kTinyYaml;

// The largest difference between two tensors of one name, relative to that tensor's largest element. Fails
// the test where names or sizes differ.
double largest_difference(const Tensors& a, const Tensors& b);

Tensors read_tensors(const std::string& path, const std::string& prefix);

}  // namespace recollect::test
