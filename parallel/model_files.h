// What a model's parameters begin with: tensors of files, by whatever names their writers gave them, or numbers that are
// drawn. Neither depends on the layout of ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/io/safetensors.h"
#include "parallel/model.h"

namespace recollect {

// The names in the source of each parameter's tensors; none where it is missing, and may be. Names may carry the model's
// prefix or not. Error kInput lists every unknown, missing and misshapen tensor.
std::vector<std::vector<std::string>> find_tensors(const Model& model, const SafetensorsSet& source);

// The same for a file of adapters, which has names of its own, of what it holds of the model.
std::vector<std::vector<std::string>> find_adapter_tensors(const Model& model, const SafetensorsSet& source);

// Which place of the model's each parameter is drawn for: those that are one in another layout have one.
std::vector<uint64_t> drawn_places(const std::vector<Parameter>& parameters);
// `columns` numbers of a row of the whole, from first_column on, and on into the rows behind it where they are more. T:
// double, or float, which are these numbers rounded.
template <typename T>
void draw(const Parameter& parameter, uint64_t place, int64_t row, int64_t first_column, int64_t columns,
          uint64_t seed, T* out);

}  // namespace recollect
