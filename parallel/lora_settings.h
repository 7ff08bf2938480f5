// What adapters a model gets (lora.h), as a configuration and PEFT's files say it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/ops/quantised_weight.h"

namespace recollect {

inline constexpr std::string_view kAllLinear = "all-linear";

// Patterns of the ends of modules' names, the first of which that matches has the say.
using NumbersByPattern = std::vector<std::pair<std::string, double>>;

// How the weights of linear modules are stored that no adapter's run trains, but those of modules that it names.
struct BaseSettings {
  WeightFormat format = WeightFormat::kWhole;
  bool double_quant = false;
  std::vector<std::string> skip = {};  // as Transformers' llm_int8_skip_modules
  bool from_file = false;              // others wrote the list: an entry may name nothing
};

struct LoraSettings {
  int64_t rank = 0;  // 0: there are no adapters
  double alpha = 8, dropout = 0;
  bool rank_stabilized = false;
  std::vector<std::string> targets = {};  // modules by the ends of their names, or kAllLinear, or one pattern
  std::vector<std::string> exclude = {};  // of these: likewise
  std::vector<int64_t> layers = {};       // and only in these, where there are any
  std::vector<std::string> layers_pattern = {};   // what stands before a layer's number
  std::vector<std::string> modules_to_save = {};  // by the ends of their names
  NumbersByPattern rank_pattern = {}, alpha_pattern = {};
  BaseSettings base = {};
  bool from_file = false;  // others wrote the lists, for several models perhaps: an entry may name nothing

  bool adapts() const { return rank > 0; }
};

}  // namespace recollect
