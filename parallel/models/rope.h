// Rotary positions as config.json has them, with the meaning that Transformers gives each key: where the frequencies' base and
// the part of a head that turns stand, and the object rope_scaling, which newer files call rope_parameters.
#pragma once

#include "parallel/models/family.h"

namespace recollect {

// What a family has of its own.
struct RopeKeys {
  const char* theta = "rope_theta";  // the key of the base
  const char* part = nullptr;        // the key of the part of a head that turns; null: heads turn whole
  double part_by_default = 1;
  // Phi-3's: a key of that name beside the object always counts, and old files have other names for longrope.
  int64_t earlier_length = 0;  // its default; 0: there is no such key
  std::vector<std::string_view> types = {"default", "linear", "dynamic", "yarn", "longrope", "llama3"};
};

void add_rope_keys(const RopeKeys& rope, std::vector<ModelKey>& keys);
ModelSection rope_section();
std::vector<UnusedModelKeys> unused_rope_keys(const RopeKeys& rope);
void translate_rope(const RopeKeys& rope, nlohmann::json& document);
void complete_rope(const RopeKeys& rope, ModelValues& m, std::vector<CompletedValue>& completed);
void check_rope(const RopeKeys& rope, const ModelValues& m, int64_t head_size, std::vector<Finding>& found);
void write_rope(const RopeKeys& rope, const ModelValues& m, nlohmann::ordered_json& document);
RotaryOptions rotary_options(const RopeKeys& rope, const ModelValues& m, int64_t head_size);

// ModelFacts::cache_ends. Phi-3's is read anew, as Transformers has it; other families' mixes what was turned in both ways.
int64_t cache_ends_by_rope(const RopeKeys& rope, const ModelValues& m);
// The longest sequence: positions of type dynamic are there to go beyond those that the model was trained with.
ModelFact longest_by_rope(const ModelValues& m);

}  // namespace recollect
