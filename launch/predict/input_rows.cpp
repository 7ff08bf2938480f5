#include "launch/predict/input_rows.h"

#include <algorithm>

#include "engine/core/error.h"
#include "engine/data/text_file.h"
#include "launch/config/data_source.h"

namespace recollect {

namespace {

using Json = nlohmann::ordered_json;

std::optional<TableFormat> table_format(DataFormat format) {
  if (format == DataFormat::kCsv || format == DataFormat::kSwag) return TableFormat::kCsv;
  if (format == DataFormat::kTsv) return TableFormat::kTsv;
  return {};
}

// Of words or of endings: what the sample is, and not what its owner knows it by.
bool is_json_list(const Json& value) { return value.is_array(); }

}  // namespace

InputRows::InputRows(const Config& config, const OpenedData& data) : places_(data.rows) {
  const DataFormat format = config.evaluation.format;
  const std::optional<TableFormat> table = table_format(format);
  if (!table && format != DataFormat::kJsonl) places_.clear();  // of other formats nothing is shown again
  if (places_.empty()) return;
  for (const std::string& path : files_of_data(format, config.evaluation.path)) {
    File& file = files_.emplace_back();
    if (table) {
      const bool header = format == DataFormat::kSwag || config.data.header;
      file.table.emplace(path, TableSpec{.format = *table, .has_header = header});
      continue;
    }
    file.text = read_utf8(path);
    for (std::size_t at = 0; at < file.text.size();) {
      const std::size_t end = std::min(file.text.find('\n', at), file.text.size());
      file.begins.push_back(at);
      at = end + 1;
    }
  }
}

Json InputRows::of(std::size_t sample) const {
  if (sample >= places_.size()) return Json::object();
  const RowPlace& place = places_[sample];
  const File& file = files_[place.file];
  return file.table ? row_of_table(*file.table, place.line) : row_of_text(file, place.line);
}

Json InputRows::row_of_table(const TextTable& table, int64_t line) const {
  std::size_t row = 0;
  for (std::size_t behind = table.rows(); row < behind;) {  // lines grow
    const std::size_t middle = (row + behind) / 2;
    if (table.line(middle) < line)
      row = middle + 1;
    else
      behind = middle;
  }
  if (row == table.rows() || table.line(row) != line)
    throw Error(ExitCode::kInput, table.path() + " has changed while it was read");
  Json fields = Json::object();
  for (std::size_t i = 0; i < table.columns().size(); ++i) fields[table.columns()[i]] = table.at(row, i);
  return fields;
}

Json InputRows::row_of_text(const File& file, int64_t line) const {
  const auto number = static_cast<std::size_t>(line - 1);
  if (number >= file.begins.size()) return Json::object();
  const std::size_t begin = file.begins[number],
                    end = std::min(file.text.find('\n', begin), file.text.size());
  const Json row = Json::parse(file.text.begin() + static_cast<std::ptrdiff_t>(begin),
                               file.text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
  Json fields = Json::object();
  if (row.is_object())
    for (const auto& [key, value] : row.items())
      if (!is_json_list(value)) fields[key] = value;
  return fields;
}

}  // namespace recollect
