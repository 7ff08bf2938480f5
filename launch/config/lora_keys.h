// The section `lora`: which adapters are trained, and what of it follows from others' files: adapter_config.json in
// lora.path says what it says of these keys, in PEFT's words.
#pragma once

#include <string>
#include <vector>

#include "launch/config/inert_rules.h"
#include "launch/config/keys.h"
#include "parallel/lora.h"
#include "parallel/model.h"

namespace recollect {

inline constexpr const char* kAdapterFile = "/adapter_model.safetensors";
inline constexpr const char* kBaseFolder = "/quantised_base";  // in output_dir: what lora.save_base saves
inline constexpr const char* kAdapterConfig = "/adapter_config.json";

void add_lora_keys(std::vector<ConfigKey>& keys);
// Fills in what lora.path, the model's family and the task say, of `otherwise` too. Returns what cannot be, or differs.
std::vector<Finding> complete_lora(Config& config, Config& otherwise);
// Of that what adapter_config.json says.
void merge_adapter_config(Config& config, Config& otherwise, std::vector<Finding>& found);
// What it says that contradicts other keys.
void check_lora(const Config& config, std::vector<Finding>& found);
std::vector<InertRule> inert_lora_rules();

LoraSettings lora_settings(const Config& config);
// adapter_config.json of a model's adapters.
std::string adapter_description(const Config& config, const Model& model);
// Whether a run has saved adapters there, or somebody else.
bool holds_adapters(const std::string& folder);

}  // namespace recollect
