// A configuration of another trainer as one of ours: DeepSpeed's and OSLO's JSON, Transformers' TrainingArguments as
// JSON, accelerate's and axolotl's YAML, torchtitan's TOML. What is written is accepted by the strict reader as soon as model and data are added; what
// has no equivalent is listed, with the reason, and never left out silently.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace recollect {

struct Imported {
  std::string yaml;
  std::vector<std::string> left_out;  // "name value: why"
};

// Error kConfiguration for a file that is none of these, or that is damaged.
Imported import_config(const std::string& path);
// The same for a text; `name` stands for the file's name in messages.
Imported import_config_text(const std::string& name, std::string_view text);

}  // namespace recollect
