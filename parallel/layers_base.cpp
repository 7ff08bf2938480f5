// Weights of linear modules that stay what they are, stored in fewer bits: what a product reads is made of them just before, in
// forward and again in backward, and lives no longer than that.
#include <algorithm>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "parallel/layers.h"
#include "parallel/lora.h"

namespace recollect {

void LayerBuilder::store_in_fewer_bits(Parameter& p) const {
  if (!lora_ || !p.linear || !p.frozen) return;
  const BaseSettings& base = lora_->settings().base;
  if (base.format == WeightFormat::kWhole) return;
  const std::vector<Parameter::FileTensor> tensors = p.file_tensors();
  const auto whole = std::count_if(tensors.begin(), tensors.end(), [&](const Parameter::FileTensor& tensor) {
    return lora_->leaves_whole(module_of(tensor.name));
  });
  if (whole == static_cast<std::ptrdiff_t>(tensors.size())) return;
  if (whole > 0)
    throw Error(ExitCode::kConfiguration,
                fmt::format("lora.base_skip_modules names a part of {}, which is one weight here", p.name),
                "name all of its modules, or none");
  const int64_t columns = p.local_columns(layout_.tensor_size);
  if (base.format != WeightFormat::kInt8 && columns % kWeightBlock != 0)
    throw Error(
        ExitCode::kConfiguration,
        fmt::format(
            "lora.base {}: a row of {} has {} numbers{}, which are no whole blocks of {}",
            name_of(base.format), p.name, columns,
            columns < p.columns ? fmt::format(" on each of {} tensor ranks", layout_.tensor_size) : "",
            kWeightBlock),
        columns < p.columns && p.columns % kWeightBlock == 0
            ? "take fewer tensor ranks, or lora.base: int8"
            : "name its module in lora.base_skip_modules, or write lora.base: int8");
  p.stored = base.format;
  p.nested_sizes = base.double_quant;
}

ValueId LayerBuilder::operand(const std::string& name, ValueId weight) {
  const auto p = std::find_if(parameters_.begin(), parameters_.end(),
                              [&](const Parameter& one) { return one.value == weight; });
  if (p == parameters_.end() || !p->is_stored()) return weight;
  return emit(name + "/weight", std::string(kStoredRows),
              attributes_of(p->stored_row(layout_.tensor_size), dtype_), {weight});
}

}  // namespace recollect
