// The model section as a Hugging Face config.json, whose keys are those of the model's family. Keys that do
// not matter for training are ignored; keys that would change the mathematics in a way this program does not
// implement are errors.
#pragma once

#include <set>
#include <string>

#include "engine/io/problems.h"
#include "launch/config/config.h"

namespace recollect {

// The file that model.config or model.pretrained names.
std::string hf_config_path(const std::string& file, const std::string& folder);

// Its model_type; "" where there is none.
std::string model_type_of(const std::string& path);

// Throws Error kConfiguration, one "path: message" per line.
Config::Model read_hf_config(const std::string& path);

// The same into a Config, except for the model keys that already have an origin. What is wrong goes to
// `problems`.
void merge_hf_config(const std::string& path, Config& config, Problems& problems);

// A config.json that Transformers loads, as text and as a file; `dtype` is that of the weights beside it
// ("float32", "bfloat16", ...). Labels have those names, where there are as many; otherwise they keep those that
// the model's own file gives them, as tokens do. Throws Error kStorage.
std::string hf_config_text(const Config::Model& model, Task task, const std::string& dtype = "float32",
                           const std::vector<std::string>& labels = {});
void write_hf_config(const std::string& path, const Config::Model& model, Task task,
                     const std::string& dtype = "float32");

}  // namespace recollect
