#include "engine/data/prepare_classification.h"

#include <bit>

#include "engine/core/error.h"

namespace recollect {

PackedSamples prepare_classification(const TextTable& table, const Tokenizer& tokenizer,
                                     const ClassificationSpec& spec, BadRecords& bad,
                                     std::vector<std::size_t>* left_out) {
  const SequenceMaker maker(tokenizer, spec.sequence);
  const std::size_t text = table.column(spec.text);
  const std::size_t pair = spec.pair.empty() ? text : table.column(spec.pair);
  const bool labelled = !spec.label.empty(), numbers = spec.labels.empty();
  const std::size_t label = labelled ? table.column(spec.label) : text;
  const auto class_of = [&](std::size_t row) {
    const int32_t named = table.class_at(row, label, spec.labels);
    return spec.order.empty() ? named : spec.order[static_cast<std::size_t>(named)];
  };
  const auto make = [&](std::size_t row, EncodingMemory& memory, Fields& sample) {
    std::optional<std::string_view> second;
    if (!spec.pair.empty()) second = table.at(row, pair);
    try {
      if (labelled && table.at(row, text).empty() && table.at(row, label).empty())
        throw BlankRecord("neither a text nor a label");
      maker.append(maker.encode(table.at(row, text), second, memory), sample);
    } catch (const Error& error) {
      table.fail(row, error);
    }
    if (labelled)
      sample["labels"].push_back(numbers ? std::bit_cast<int32_t>(table.number_at(row, label))
                                         : class_of(row));
  };
  std::vector<PackedSamples::Part> parts = maker.parts();
  if (labelled) parts.push_back({.name = "labels", .dtype = numbers ? DType::kF32 : DType::kI32});
  return prepare_samples(table.rows(), spec.threads, {parts, maker.sequence_length()}, make, bad, left_out);
}

}  // namespace recollect
