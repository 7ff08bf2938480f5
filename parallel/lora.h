// Low-rank adapters (Hu et al., "LoRA", 2021): beside the weight W of a linear layer, which stays what it is, stand A and
// B of rank r, and y = x W^T + scale (dropout(x) A^T) B^T. What they are called, and which modules have one, is said in the
// words of PEFT, so that its files are ours. Everything else of the model is frozen, but for modules that are trained whole
// and saved with them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallel/lora_settings.h"
#include "parallel/model.h"
#include "parallel/module_pattern.h"

namespace recollect {

// Those settings for a family's names. Error kConfiguration for a pattern that is none.
class AdapterRules {
 public:
  AdapterRules() = default;
  AdapterRules(LoraSettings settings, const FileNames& files);

  const LoraSettings& settings() const { return settings_; }
  bool adapts() const { return settings_.adapts(); }
  // Of a linear module, "h.0.attn.c_attn".
  bool is_target(std::string_view module) const;
  int64_t rank_of(std::string_view module) const;
  double scale_of(std::string_view module) const;
  // Of a parameter, "classifier.weight".
  bool trains_whole(const Parameter& parameter) const;

  // Whether an entry of targets or exclude names the module.
  bool names(const std::string& entry, std::string_view module) const;
  // Whether settings().base skips a linear module.
  bool leaves_whole(std::string_view module) const;
  // Whether an entry of base.skip names the module: its end, or its beginning up to a dot.
  bool skips(const std::string& entry, std::string_view module) const;
  // Whether an entry of modules_to_save names a module that holds the tensor.
  bool saves(const std::string& entry, std::string_view tensor) const;
  // Whether a pattern of rank_pattern or alpha_pattern is of the module.
  bool is_of(const std::string& pattern, std::string_view module) const;

 private:
  std::string whole_name(std::string_view module) const;
  bool passes_layers(std::string_view module) const;
  const ModulePattern& pattern(const std::string& text) const;
  double number_of(const NumbersByPattern& numbers, std::string_view module, double otherwise) const;

  LoraSettings settings_;
  FileNames files_;
  std::vector<std::pair<std::string, ModulePattern>> patterns_;  // all that there are, compiled
};

// "h.0.attn.c_attn" of "h.0.attn.c_attn.weight".
std::string_view module_of(std::string_view tensor);
// Those of a weight in the model's files, or of the one tensor that it is.
std::vector<std::string> modules_of(const Parameter& weight);
// What adapters may stand beside.
std::vector<std::string> linear_modules(std::span<const Parameter> parameters);

bool has_adapters(std::span<const Parameter> parameters);

// What a parameter's tensor is called in PEFT's files.
std::string adapter_tensor_name(const FileNames& files, const std::string& tensor);

// Error kConfiguration where an entry of a list or a pattern names nothing that the model has, or a table that stands for
// another too; or where nothing is adapted.
void check_adapters(const Model& model, const LoraSettings& settings);

}  // namespace recollect
