// How families declare keys that most of them have, and what they all check.
#pragma once

#include <fmt/format.h>

#include "parallel/models/family.h"

namespace recollect {

inline ModelKey model_size(const char* name, int64_t otherwise, double low, double high, const char* help,
                           std::vector<std::string> aliases = {}) {
  return {.name = name,
          .aliases = std::move(aliases),
          .otherwise = otherwise,
          .low = low,
          .high = high,
          .help = help};
}

inline ModelKey model_dropout(const char* name, double otherwise, const char* help) {
  return {.name = name,
          .otherwise = otherwise,
          .low = 0,
          .high = 1,
          .high_open = true,
          .concerns = ModelKey::Concerns::kTraining,
          .help = help};
}

inline ModelKey model_norm_epsilon(const char* name, double otherwise) {
  return {.name = name, .otherwise = otherwise, .low = 0, .low_open = true, .help = "added to the variance"};
}

inline ModelKey model_init_std() {
  return {.name = "initializer_range",
          .otherwise = 0.02,
          .low = 0,
          .concerns = ModelKey::Concerns::kFreshWeights,
          .help = "standard deviation of the initial weights"};
}

inline ModelFact fact_of(const ModelValues& m, const char* key) { return {key, m.integer(key)}; }

// What LayerBuilder calls Hugging Face's gelu (erf form), gelu_new and gelu_pytorch_tanh (tanh form).
inline const char* gelu_form(const std::string& activation) { return activation == "gelu" ? "erf" : "tanh"; }

inline void check_heads(const ModelValues& m, const char* width, const char* heads,
                        std::vector<Finding>& found) {
  if (m.integer(width) % m.integer(heads) != 0)
    found.push_back({{std::string("model.") + heads, std::string("model.") + width},
                     fmt::format("model.{} {} is not a multiple of model.{} {}", width, m.integer(width),
                                 heads, m.integer(heads))});
}

}  // namespace recollect
