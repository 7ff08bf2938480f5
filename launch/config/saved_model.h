// Where the weights are of a model that is not trained any more, and what the files beside them say. What they leave out, or
// say in a way that is not Transformers', they do not say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/config/config.h"

namespace recollect {

inline constexpr const char* kBestModelFolder = "/best_model";  // in output_dir

// Of a run that has saved both its last model and its best.
enum class WhichModel { kLast, kBest };

// Makes model.pretrained, or of adapters lora.path, what `keys`, those of the command line, say; else what the run of this
// configuration has saved in output_dir, or what it started from. Error kConfiguration where there is nothing. Returns what
// is to be said of the choice; "" where the model is the one in output_dir.
std::string choose_saved_weights(const std::vector<std::string>& keys, Config& config, WhichModel wanted);

// What the config.json there calls its classes, in order; none where it does not say, or says LABEL_0 and so on. Error kInput
// where it contradicts itself.
std::vector<std::string> saved_label_names(const std::string& folder);

// The ids that end a text, by generation_config.json, else by config.json: each from 0 to 2^31 - 1.
std::vector<int32_t> ends_of_text(const std::string& folder);

bool sets_pretrained(const std::vector<std::string>& keys);

}  // namespace recollect
