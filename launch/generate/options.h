// What the words behind `generate` say, and what a training's configuration means for it: which weights, which
// tokenizer, how many ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/config/config.h"
#include "launch/config/words.h"
#include "launch/generate/sampler.h"

namespace recollect {

struct GenerateOptions {
  std::optional<std::string> prompt;
  std::string prompts;  // a file of prompts, one a line; "-": standard input
  std::optional<int64_t> max_new_tokens;
  Sampling sampling;
  std::string tokenizer;  // a path, or "bytes"
  bool json = false, verbose = false;
  bool chat = false;          // prompts are conversations to answer
  std::string chat_template;  // a file, or a name; "": the tokenizer's own
  bool refuses_long =
      false;         // what the model has no room for; else each token follows the latest that it takes
  std::string said;  // of the choice of weights; "": they are the run's
  Config config;     // model.pretrained is where the weights are
};

inline constexpr int64_t kUsualNewTokens = 128;  // or as many as the model has room for

OptionTable generate_options();
// Errors: kConfiguration for words that mean nothing, numbers out of range, a model that is not causal, and
// where nobody says which weights or which tokenizer.
GenerateOptions read_generate_options(const Words& words);

// All ranks that are there are tensor ranks: those of a launcher, or threads where the configuration makes its
// ranks threads.
void expect_ranks(Config& config);
// Error kConfiguration where the model cannot be divided among so many.
void fit_to_ranks(Config& config, int ranks);

}  // namespace recollect
