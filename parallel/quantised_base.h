// The model that adapters are of, with its frozen linear weights as they are trained beside: quantised, in a file that Transformers
// reads.
#pragma once

#include <cstdint>
#include <string>

#include "engine/io/safetensors.h"
#include "parallel/model.h"

namespace recollect {

// Writes `path`; other tensors are those of the base, as it has them. `most`: as in Weights::begin_file. Error kInput where the
// base lacks one that may not be missing, kStorage.
void save_quantised_base(const Model& model, const SafetensorsSet& base, const std::string& path,
                         uint64_t most);

// No less than it takes there.
uint64_t quantised_base_bytes(const Model& model);

}  // namespace recollect
