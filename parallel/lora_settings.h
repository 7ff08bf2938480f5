// What adapters a model gets (lora.h), as a configuration and PEFT's files say it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace recollect {

inline constexpr std::string_view kAllLinear = "all-linear";

// Patterns of the ends of modules' names, the first of which that matches has the say.
using NumbersByPattern = std::vector<std::pair<std::string, double>>;

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
  bool from_file = false;  // others wrote the lists, for several models perhaps: an entry may name nothing

  bool adapts() const { return rank > 0; }
};

}  // namespace recollect
