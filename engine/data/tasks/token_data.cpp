#include "engine/data/tasks/token_data.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/ignored_label.h"

namespace recollect {

namespace {

using FieldShape = FieldSpec::Shape;

FieldSpec list_of_tokens(std::string key, std::string name, int64_t values) {
  FieldSpec spec{.key = std::move(key), .name = std::move(name)};
  spec.high = static_cast<double>(values - 1);
  spec.random_values = values;
  return spec;
}

}  // namespace

FieldSpec input_ids(const TokenInputs& inputs) {
  require(inputs.vocabulary_size >= 1, "a vocabulary without ids");
  FieldSpec spec = list_of_tokens("input_ids", "ids", inputs.vocabulary_size);
  spec.required = true;
  spec.noun = "id";
  spec.range = fmt::format("the vocabulary of {}", inputs.vocabulary_size);
  return spec;
}

FieldSpec attention_mask() {
  FieldSpec mask = list_of_tokens("attention_mask", "mask", 2);
  mask.is_mask = true;
  mask.noun = "a mask's";
  mask.range = "0 and 1";
  return mask;
}

FieldSpec id_labels(const TokenInputs& inputs) {
  FieldSpec spec = list_of_tokens("labels", "labels", inputs.vocabulary_size);
  spec.may_be_ignored = true;
  spec.noun = "label";
  spec.range = fmt::format("the vocabulary of {}", inputs.vocabulary_size);
  return spec;
}

FieldSpec class_labels(int64_t values, FieldShape shape, const std::string& what) {
  require(values >= 1, "labels without classes");
  FieldSpec spec = list_of_tokens("labels", "labels", values);
  spec.shape = shape;
  spec.required = true;
  spec.may_be_ignored = true;
  spec.is_class = true;
  spec.noun = "label";
  spec.range = fmt::format("the {} {}", values, what);
  return spec;
}

std::vector<FieldSpec> token_fields(const TokenInputs& inputs, const std::vector<FieldSpec>& more,
                                    int64_t lists) {
  std::vector<FieldSpec> fields{input_ids(inputs)};
  if (inputs.token_types > 0) {
    FieldSpec& types =
        fields.emplace_back(list_of_tokens("token_type_ids", "token_types", inputs.token_types));
    types.noun = "token type";
    types.range = fmt::format("the model's {}", inputs.token_types);
  }
  fields.push_back(attention_mask());
  for (FieldSpec& spec : fields) {
    spec.shape = lists == 0 ? FieldShape::kTokens : FieldShape::kTokenLists;
    spec.size = std::max<int64_t>(lists, 1);
  }
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

int64_t count_targets(const std::vector<int32_t>& targets) {
  return static_cast<int64_t>(targets.size()) - std::count(targets.begin(), targets.end(), kIgnoredLabel);
}

TokenCollator::TokenCollator(const TokenInputs& inputs, BatchField targets, int64_t rows) : rows_(rows) {
  require(inputs.padding_id >= 0 && inputs.padding_id < inputs.vocabulary_size,
          "the padding id is outside the vocabulary");
  require(rows >= 1, "a sample without sequences");
  fields_.push_back({.name = "ids", .padding = inputs.padding_id});
  if (inputs.token_types > 0) fields_.push_back({.name = "token_types"});
  if (inputs.packed)
    fields_.push_back(positions_field());
  else
    fields_.push_back({.name = "lengths", .padding = 1, .per = BatchField::Per::kRow});
  fields_.push_back(std::move(targets));
}

TargetCounts TokenCollator::prepare(Fields& sample, int64_t number, int64_t length) const {
  const Field &ids = sample.field("ids"), &mask = sample.field("mask");
  std::vector<int32_t>& lengths = sample["lengths"];
  lengths.resize(ids.rows());
  for (std::size_t row = 0; row < ids.rows(); ++row) {
    const auto ones = mask.row(row);
    const std::ptrdiff_t attended =
        mask.values.empty() ? std::ssize(ids.row(row)) : std::count(ones.begin(), ones.end(), 1);
    lengths[row] = static_cast<int32_t>(attended);
  }
  return add_targets(sample, number, length);
}

TargetCounts TokenCollator::add_targets(Fields& sample, int64_t, int64_t) const {
  const Field& labels = sample.field("labels");
  Field& targets = sample.field("targets");
  targets.dtype = labels.dtype;
  targets.values.assign(labels.values.begin(), labels.values.end());
  if (labels.dtype == DType::kF32) return {static_cast<int64_t>(targets.values.size())};
  return {count_targets(targets.values)};
}

}  // namespace recollect
