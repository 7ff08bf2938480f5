// Low-rank adapters (Hu et al., "LoRA", 2021): beside the weight W of a linear layer, which stays what it is, stand A and
// B of rank r, and y = x W^T + scale (dropout(x) A^T) B^T. What they are called is said in the words of PEFT, so that its
// files are ours. Everything else of the model is frozen, but for modules that are trained whole and saved with them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace recollect {

struct FileNames;
struct Model;
struct Parameter;

inline constexpr std::string_view kAllLinear = "all-linear";

struct LoraSettings {
  int64_t rank = 0;  // 0: there are no adapters
  double alpha = 8, dropout = 0;
  bool rank_stabilized = false;
  std::vector<std::string> targets = {};          // modules by the ends of their names, or kAllLinear
  std::vector<std::string> modules_to_save = {};  // likewise

  bool adapts() const { return rank > 0; }
  double scale() const;
  // Of a linear module, "h.0.attn.c_attn".
  bool is_target(std::string_view module) const;
  // Of a parameter, "classifier.weight".
  bool trains_whole(const Parameter& parameter) const;
};

// Whether `name` is the module's, its end ("c_attn", "attn.c_attn"), or the whole with the prefix of the model's files.
bool names_module(std::string_view name, std::string_view module);

// "h.0.attn.c_attn" of "h.0.attn.c_attn.weight".
std::string_view module_of(std::string_view tensor);
// Those of a weight in the model's files, or of the one tensor that it is.
std::vector<std::string> modules_of(const Parameter& weight);
// What adapters may stand beside.
std::vector<std::string> linear_modules(std::span<const Parameter> parameters);

bool has_adapters(std::span<const Parameter> parameters);

// What a parameter's tensor is called in PEFT's files.
std::string adapter_tensor_name(const FileNames& files, const std::string& tensor);

// Error kConfiguration where an entry of targets or modules_to_save names nothing that the model has, or a table that
// stands for another too; or where nothing is adapted.
void check_adapters(const Model& model, const LoraSettings& settings);

}  // namespace recollect
