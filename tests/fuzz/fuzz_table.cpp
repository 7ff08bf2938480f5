// Rows of texts in columns. The first byte says which format, and whether the first line names the columns. What is
// accepted is the same when written again as CSV with every field quoted, whatever is in them.
#include "engine/data/text_table.h"
#include "tests/engine/temporary_folder.h"
#include "tests/fuzz/parse.h"

using namespace recollect;

namespace {

TableSpec spec_of(char first) {
  constexpr unsigned kHasHeader = 4, kSkips = 8, kHasList = 16;
  const auto bits = static_cast<unsigned char>(first);
  const TableFormat format = bits % 4 == 0   ? TableFormat::kCsv
                             : bits % 4 == 1 ? TableFormat::kTsv
                                             : TableFormat::kJsonl;
  TableSpec spec{
      .format = format, .has_header = (bits & kHasHeader) != 0, .skips_short_rows = (bits & kSkips) != 0};
  if (format == TableFormat::kJsonl) spec.columns = {"a", "b"};
  if (format == TableFormat::kJsonl && (bits & kHasList)) spec.list = "b";
  return spec;
}

std::string quoted(std::string_view field) {
  std::string text = "\"";
  for (const char c : field) text.append(c == '"' ? 2 : 1, c);
  return text + '"';
}

std::string written(const TextTable& table) {
  std::string text;
  for (std::size_t row = 0; row < table.rows(); ++row)
    for (std::size_t column = 0; column < table.columns().size(); ++column)
      text += quoted(table.at(row, column)) + (column + 1 < table.columns().size() ? ',' : '\n');
  return text;
}

}  // namespace

RECOLLECT_FUZZ(text) {
  if (text.empty()) return;
  static const test::TemporaryFolder folder;
  const std::string path = folder.write("table", text.substr(1));
  fuzz::accepts([&] {
    const TextTable table(path, spec_of(text[0]));
    fuzz::expect(table.rows() > 0, "a table without rows");
    if (table.columns().empty()) return;
    const std::string again = written(table);
    const TextTable copy(folder.write("again.csv", again),
                         {.format = TableFormat::kCsv, .has_header = false});
    fuzz::expect(written(copy) == again && copy.rows() == table.rows(),
                 "a table that was written reads back as another");
    const std::string names[] = {"yes", "no"};
    fuzz::accepts([&] { fuzz::expect(table.class_at(0, 0, names) < 2, "a class that is none"); });
    fuzz::accepts([&] { table.number_at(0, 0); });
  });
}
