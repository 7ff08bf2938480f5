// The numbers of weights that are stored in fewer bits, one after the other.
#include "engine/ops/quantised_weight.h"

#include "engine/ops/reference/kernels.h"

namespace recollect::reference {
namespace {

constexpr DynamicMap kMap = DynamicMap::make(true);

float number(const StoredRow& of, const std::byte* row, int64_t column) {
  if (of.format == WeightFormat::kInt8) {
    const auto whole = static_cast<float>(reinterpret_cast<const int8_t*>(row)[column]);
    const float size = *reinterpret_cast<const float*>(row + of.code_bytes());
    return separate_product(separate_product(whole, size), kInt8Share);
  }
  const auto pair = std::to_integer<int>(row[column / 2]);
  const float entry = weight_entry(of.format, column % 2 == 0 ? pair >> 4 : pair & 15);
  return separate_product(entry, size_of_block(of, row, column / kWeightBlock, kMap.entries.data()));
}

void dequantise_rows(const KernelArgs& args, const Attributes& attributes) {
  const StoredRow of = stored_row_of(attributes);
  const Tensor& to = args.out[0];
  const auto* const stored = static_cast<const std::byte*>(args.in[0].data);
  for (int64_t r = 0; r < to.shape[0]; ++r)
    for (int64_t c = 0; c < of.columns; ++c) {
      const float made = number(of, stored + r * of.bytes(), c);
      const int64_t at = r * of.columns + c;
      if (to.dtype == DType::kF64) to.as<double>()[at] = made;
      if (to.dtype == DType::kF32) to.as<float>()[at] = made;
      if (to.dtype == DType::kBF16) to.as<bf16>()[at] = bf16(made);
      if (to.dtype == DType::kF16) to.as<f16>()[at] = f16(made);
    }
}

}  // namespace

void register_quantised_weight(KernelTable& table) {
  add_kernel(table, std::string(kStoredRows), dequantise_rows, dequantise_rows);
}

}  // namespace recollect::reference
