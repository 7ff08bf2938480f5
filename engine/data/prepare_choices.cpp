#include "engine/data/prepare_choices.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/core/error.h"
#include "engine/data/text_file.h"

namespace recollect {
namespace {

std::string ending_column(const std::string& ending, std::size_t i) { return fmt::format("{}{}", ending, i); }

}  // namespace

std::size_t count_choices(const TextTable& table, const std::string& ending) {
  const std::vector<std::string>& columns = table.columns();
  std::size_t count = 0;
  while (std::find(columns.begin(), columns.end(), ending_column(ending, count)) != columns.end()) ++count;
  if (count == 0) table.column(ending_column(ending, 0));  // says which columns there are
  if (count == 1) fail_at_line(table.path(), 1, "there is one ending, and nothing to choose");
  return count;
}

PackedSamples prepare_choices(const TextTable& table, const Tokenizer& tokenizer, const ChoicesSpec& spec,
                              BadRecords& bad, std::vector<std::size_t>* left_out) {
  const SequenceMaker maker(tokenizer, spec.sequence);
  const std::size_t text = table.column(spec.text);
  const std::size_t header = spec.header.empty() ? text : table.column(spec.header);
  const std::size_t label = spec.label.empty() ? text : table.column(spec.label);
  std::vector<std::size_t> endings(count_choices(table, spec.ending));
  std::vector<std::string> numbers;
  for (std::size_t i = 0; i < endings.size(); ++i) {
    endings[i] = table.column(ending_column(spec.ending, i));
    numbers.push_back(fmt::to_string(i));
  }
  const auto make = [&](std::size_t row, EncodingMemory& memory, Fields& sample) {
    std::string second;
    for (const std::size_t ending : endings) {
      second.clear();
      if (!spec.header.empty()) second.append(table.at(row, header)) += ' ';
      second += table.at(row, ending);
      try {
        maker.append(maker.encode(table.at(row, text), second, memory), sample);
      } catch (const Error& error) {
        table.fail(row, error);
      }
      for (const PackedSamples::Part& part : maker.parts()) {
        Field& field = sample.field(part.name);
        field.ends.push_back(field.values.size());
      }
    }
    if (!spec.label.empty()) sample["labels"].push_back(table.class_at(row, label, numbers));
  };
  std::vector<PackedSamples::Part> parts = maker.parts(endings.size());
  if (!spec.label.empty()) parts.push_back({.name = "labels"});
  return prepare_samples(table.rows(), spec.threads, {parts, maker.sequence_length()}, make, bad, left_out);
}

}  // namespace recollect
