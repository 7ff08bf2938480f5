// A linear weight's tensor of the model's files, whole, as bitsandbytes quantises it (engine/ops/quantised_weight.h): [out, in],
// also where the files of whole weights have it turned. Numbers are quantised as files have them, in float, and of int8 rounded to
// f16 before. An entry is that which is nearest to the number's share of its block's size, the lower one where two are: what
// bitsandbytes' kernels for GPUs and its portable code do. The mean of nested sizes is summed in double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/ops/quantised_weight.h"

namespace recollect {

struct QuantisedTensor {
  WeightFormat format = WeightFormat::kWhole;
  bool nested = false;
  int64_t rows = 0, columns = 0;
  std::vector<uint8_t> codes = {};         // two numbers a byte, or one of 8 bits
  std::vector<float> sizes = {};           // of blocks, or rows of 8 bits; nested: the largest of 256 each
  std::vector<uint8_t> nested_codes = {};  // of blocks, where sizes are nested
  float mean = 0;                          // likewise

  int64_t blocks() const { return rows * columns / kWeightBlock; }
};

// Rows first ... first + count - 1, from any thread.
using ReadRows = std::function<void(int64_t first, int64_t count, float* out)>;

// Error kInput, naming the tensor, where a number is not finite or 16 bits cannot hold one of int8.
QuantisedTensor quantise_tensor(const std::string& name, const StoredRow& row, int64_t rows,
                                const ReadRows& read);

// A row's columns from first_column on, as many as `part` says, as memory has them.
void store_row(const QuantisedTensor& tensor, int64_t row, int64_t first_column, const StoredRow& part,
               std::byte* out);

// Its numbers.
void dequantise_row(const QuantisedTensor& tensor, int64_t row, float* out);

}  // namespace recollect
