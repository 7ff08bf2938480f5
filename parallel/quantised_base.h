// The model that adapters are of, with its frozen linear weights as they are trained beside: quantised, in a file that Transformers
// reads.
#pragma once

#include <cstdint>
#include <string>

#include "engine/core/dtype.h"
#include "engine/io/safetensors.h"
#include "parallel/model.h"

namespace recollect {

// Writes `path`; other tensors are those of the base, as it has them. `most`: as in Weights::begin_file. Error kInput where the
// base lacks one that may not be missing, kStorage.
void save_quantised_base(const Model& model, const SafetensorsSet& base, const std::string& path,
                         uint64_t most);

// Of what stays whole there: the first such tensor's.
DType dtype_of_whole(const Model& model, const SafetensorsSet& base);
// No less than it takes there.
uint64_t quantised_base_bytes(const Model& model);

}  // namespace recollect
