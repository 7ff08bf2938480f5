// How families declare keys that most of them have, and what they all check.
#pragma once

#include <fmt/format.h>

#include "engine/io/json.h"
#include "parallel/models/family.h"

namespace recollect {

inline ModelKey model_size(std::string name, int64_t otherwise, double low, double high, const char* help,
                           std::vector<std::string> aliases = {}) {
  return {.name = std::move(name),
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

inline ModelKey model_unlearnt_token(int64_t otherwise) {
  return {.name = "pad_token_id",
          .otherwise = otherwise,
          .low = -1,
          .high = kMostModelSize,
          .concerns = ModelKey::Concerns::kTraining,
          .help = "the token whose embedding is not learnt; -1: none"};
}

// In config.json null is none, and -1 the last token: it is the index of a row, as PyTorch counts them.
inline void translate_unlearnt_token(nlohmann::json& document) {
  const auto found = document.find("pad_token_id");
  if (found == document.end()) return;
  const auto size = document.find("vocab_size");
  if (found->is_null())
    *found = -1;
  else if (found->is_number_integer() && *found < 0 && size != document.end() && size->is_number_integer())
    *found = found->get<int64_t>() + size->get<int64_t>();
}

inline nlohmann::ordered_json unlearnt_token_json(const ModelValues& m) {
  if (m.integer("pad_token_id") < 0) return nullptr;
  return m.integer("pad_token_id");
}

inline void check_unlearnt_token(const ModelValues& m, std::vector<Finding>& found) {
  if (m.integer("pad_token_id") >= m.integer("vocab_size"))
    found.push_back({{"model.pad_token_id", "model.vocab_size"},
                     fmt::format("model.pad_token_id {} is outside the vocabulary of {}",
                                 m.integer("pad_token_id"), m.integer("vocab_size"))});
}

inline ModelFact fact_of(const ModelValues& m, const char* key) { return {key, m.integer(key)}; }

// What LayerBuilder calls Hugging Face's gelu (erf form), gelu_new and gelu_pytorch_tanh (tanh form).
inline bool is_tanh_gelu(const std::string& activation) { return activation != "gelu"; }
inline const char* gelu_form(const std::string& activation) {
  return is_tanh_gelu(activation) ? "tanh" : "erf";
}

inline void check_heads(const ModelValues& m, const char* width, const char* heads,
                        std::vector<Finding>& found) {
  if (m.integer(width) % m.integer(heads) != 0)
    found.push_back({{std::string("model.") + heads, std::string("model.") + width},
                     fmt::format("model.{} {} is not a multiple of model.{} {}", width, m.integer(width),
                                 heads, m.integer(heads))});
}

// Heads that share key/value heads and have rotary positions; 0 key/value heads: as many as heads.
inline void check_rotary_heads(const ModelValues& m, std::vector<Finding>& found) {
  const int64_t heads = m.integer("num_attention_heads"), shared = m.integer("num_key_value_heads"),
                size = m.integer("head_dim");
  if (shared > 0 && heads % shared != 0)
    found.push_back(
        {{"model.num_attention_heads", "model.num_key_value_heads"},
         fmt::format("model.num_attention_heads {} is not a multiple of model.num_key_value_heads {}", heads,
                     shared)});
  if (size % 2 != 0)
    found.push_back(
        {{"model.head_dim"}, fmt::format("model.head_dim {} is odd: rotary positions take pairs", size)});
}

}  // namespace recollect
