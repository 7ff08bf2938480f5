// Quantised weights as Transformers saves those of bitsandbytes: beside MODULE.weight of 4 bits, which is one column of bytes, stand
// MODULE.weight.absmax, .quant_map, .quant_state.bitsandbytes__nf4 and, nested, .nested_absmax and .nested_quant_map; beside
// MODULE.weight of 8 bits MODULE.SCB and MODULE.weight_format.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/io/safetensors.h"
#include "engine/io/safetensors_writer.h"
#include "parallel/quantised_tensor.h"

namespace recollect {

// Whether files hold a weight of that name so.
bool is_quantised_in(const SafetensorsSet& source, const std::string& weight);
// What stands beside it, by whole names; also of formats that it has not.
std::vector<std::string> names_beside(const std::string& weight);

// Error kInput where it is of another format or shape, or of tables that are not bitsandbytes' own.
QuantisedTensor read_quantised(const SafetensorsSet& source, const std::string& weight, const StoredRow& row,
                               int64_t rows);

// Names all tensors that hold the weight. write_quantised fills them.
void declare_quantised(SafetensorsWriter& file, const std::string& weight, const StoredRow& row,
                       int64_t rows);
void write_quantised(SafetensorsWriter& file, const std::string& weight, const QuantisedTensor& tensor);

}  // namespace recollect
