// quantization_config of a model's config.json, in which Transformers says how bitsandbytes has quantised the files beside it: the
// keys of the section `lora` that are of the base.
#pragma once

#include <string>
#include <vector>

#include "engine/io/json.h"
#include "launch/config/inert_rules.h"
#include "launch/config/keys.h"

namespace recollect {

// "", or why such files are not read.
std::string unsupported_quantisation(const nlohmann::json& described);

// Of a folder that holds quantised weights: fills in the keys that are not given, of `otherwise` too, and says what differs.
void complete_quantisation(Config& config, Config& otherwise, std::vector<Finding>& found);

// That of what lora.save_base writes.
nlohmann::ordered_json quantisation_json(const Config::Lora& lora);

}  // namespace recollect
