// A model and adapters of it as one model, from files to a file: every weight that has an adapter becomes W + scale B A,
// in double and rounded once. A band of rows at a time.
#pragma once

#include <string>

#include "engine/io/safetensors.h"
#include "parallel/lora.h"
#include "parallel/model.h"

namespace recollect {

// `model`: that both are of, with adapters. Tensors of f64 stay so, others are f32. Errors: kInput where a file does not
// fit the model, kStorage.
void merge_adapters(const Model& model, const LoraSettings& settings, const SafetensorsSet& base,
                    const SafetensorsSet& adapters, const std::string& path, uint64_t most = 0);

// An upper bound of the bytes of such a file.
uint64_t merged_bytes(const Model& model, std::size_t number_bytes);

}  // namespace recollect
