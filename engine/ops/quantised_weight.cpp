// The numbers of weights that are stored in fewer bits.
#include "engine/ops/quantised_weight.h"

#include "engine/ops/define.h"

namespace recollect {

StoredRow stored_row_of(const Attributes& attributes) {
  const std::string& format = attributes.text("format");
  StoredRow row{.nested = attributes.integer("nested") != 0, .columns = attributes.integer("columns")};
  for (const WeightFormat one : {WeightFormat::kNF4, WeightFormat::kFP4, WeightFormat::kInt8})
    if (name_of(one) == format) row.format = one;
  return row;
}

Attributes attributes_of(const StoredRow& row, DType dtype) {
  return {{"format", std::string(name_of(row.format))},
          {"nested", int64_t{row.nested}},
          {"columns", row.columns},
          {"dtype", std::string(name_of(dtype))}};
}

namespace ops {

namespace {

std::vector<OutputSpec> infer_stored_rows(const OpView& v) {
  const Value& rows = v.in(0);
  const StoredRow row = stored_row_of(v.attributes());
  const bool int8 = row.format == WeightFormat::kInt8;
  check(row.format != WeightFormat::kWhole, v, "the format is nf4, fp4 or int8");
  check(row.columns > 0 && (int8 ? !row.nested : row.columns % kWeightBlock == 0), v,
        "rows of 4 bits are whole blocks, and those of 8 have no sizes of sizes");
  check(rows.dtype == DType::kU8, v, "what is stored are bytes");
  check_shape(v, rows, {rows.shape[0], row.bytes()});
  const std::string& dtype = v.attributes().text("dtype");
  for (const DType made : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16})
    if (name_of(made) == dtype)
      return {{.shape = {rows.shape[0], row.columns},
               .dtype = made,
               .placement = rows.placement,
               .category = Category::kWorkspace}};
  check(false, v, "the dtype is f64, f32, bf16 or f16");
  return {};
}

}  // namespace

void register_quantised_weight(OpRegistry& registry) {
  registry.add({.name = std::string(kStoredRows), .infer = infer_stored_rows, .cost = [](const OpView& v) {
                  return streaming_cost(v, 1);
                }});
}

}  // namespace ops
}  // namespace recollect
