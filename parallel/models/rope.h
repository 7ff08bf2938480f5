// Rotary positions as in config.json, where each key means what it means in Transformers: the base of the
// frequencies, the rotated part of a head, and the object rope_scaling, which newer files call rope_parameters.
#pragma once

#include "parallel/models/family.h"

namespace recollect {

// How a family's keys differ.
struct RopeKeys {
  const char* section = "rope_scaling";  // the object
  const char* theta = "rope_theta";      // the key of the base
  double theta_by_default = 10000;
  const char* where = "";      // in which layers, for the help of the base
  const char* part = nullptr;  // the key of the rotated part of a head; null: whole heads are rotated
  double part_by_default = 1;
  // For Phi-3: original_max_position_embeddings beside the object counts; old files have other names for longrope.
  int64_t earlier_length = 0;  // its default; 0: there is no such key
  std::vector<std::string_view> types = {"default", "linear", "dynamic", "yarn", "longrope", "llama3"};
};

void add_rope_keys(const RopeKeys& rope, std::vector<ModelKey>& keys);
ModelSection rope_section();
ModelSection local_rope_section();  // of RopeKeys::section local_rope_scaling
std::vector<UnusedModelKeys> unused_rope_keys(const RopeKeys& rope);
void translate_rope(const RopeKeys& rope, nlohmann::json& document);
void complete_rope(const RopeKeys& rope, ModelValues& m, std::vector<CompletedValue>& completed);
void check_rope(const RopeKeys& rope, const ModelValues& m, int64_t head_size, std::vector<Finding>& found);
void write_rope(const RopeKeys& rope, const ModelValues& m, nlohmann::ordered_json& document);
// The same where layers with a window have positions of their own.
void translate_rope_of_kinds(const RopeKeys& all, const RopeKeys& windowed, nlohmann::json& document);
void write_rope_of_kinds(const RopeKeys& all, const RopeKeys& windowed, const ModelValues& m,
                         nlohmann::ordered_json& document);
RotaryOptions rotary_options(const RopeKeys& rope, const ModelValues& m, int64_t head_size);

// ModelFacts::cache_ends. Phi-3's sequence is read anew, as in Transformers; other families mix keys of both rotations.
int64_t cache_ends_by_rope(const RopeKeys& rope, const ModelValues& m);
// The longest sequence: type dynamic is for sequences beyond max_position_embeddings.
ModelFact longest_by_rope(const RopeKeys& rope, const ModelValues& m);

}  // namespace recollect
