// Files as people have them, sound and broken: what a row holds, and the file and line of what is wrong.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "engine/data/glue.h"
#include "engine/data/text_table.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"

namespace recollect {
namespace {

using Rows = std::vector<std::vector<std::string>>;

class TextTables : public ::testing::Test {
 protected:
  TextTable open(const std::string& text, const TableSpec& spec = {}) {
    return TextTable(folder_.write("table", text), spec);
  }
  static Rows rows_of(const TextTable& table) {
    Rows rows(table.rows());
    for (std::size_t row = 0; row < rows.size(); ++row)
      for (std::size_t i = 0; i < table.columns().size(); ++i) rows[row].emplace_back(table.at(row, i));
    return rows;
  }
  // Empty lines too.
  void refuses(const std::string& text, const TableSpec& spec, const std::string& mentioned) {
    BadRecords none(OnBadRecord::kError);
    const std::string path = folder_.write("table", text);
    test::expect_error(ExitCode::kInput, {mentioned}, [&] { TextTable(path, spec, none); });
  }

  test::TemporaryFolder folder_;
};

// What Python's csv.reader gives for these.
TEST_F(TextTables, CsvIsReadAsPythonReadsIt) {
  const TextTable table = open(
      "\ufeffa,b\r\n1,\"two, "
      "\"\"quoted\"\"\nlines\"\r\n\"x\"y,z\"w\"\n,\"\"\n\"\",\u00e9\U0001f642\n\"\"\"\",\"a\rb\"");
  EXPECT_EQ(table.columns(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(rows_of(table), (Rows{{"1", "two, \"quoted\"\nlines"},
                                  {"xy", "z\"w\""},
                                  {"", ""},
                                  {"", "\u00e9\U0001f642"},
                                  {"\"", "a\rb"}}));
  EXPECT_EQ(table.line(0), 2);
  EXPECT_EQ(table.line(1), 4);
  EXPECT_EQ(table.column("b"), 1u);
}

TEST_F(TextTables, TsvHasNoQuotes) {
  const TableSpec spec{.format = TableFormat::kTsv, .has_header = false};
  const TextTable table = open("\"a\tb\"\r\n\t\n", spec);
  EXPECT_EQ(table.columns(), (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(rows_of(table), (Rows{{"\"a", "b\""}, {"", ""}}));
}

// As Python's csv and pandas have it.
TEST_F(TextTables, ALoneCarriageReturnEndsARow) {
  for (const TableFormat format : {TableFormat::kCsv, TableFormat::kTsv})
    EXPECT_EQ(rows_of(open("a\rb\r\nc\n", {.format = format, .has_header = false})),
              (Rows{{"a"}, {"b"}, {"c"}}));
  EXPECT_EQ(rows_of(open("\"a\rb\"\r", {.has_header = false})), (Rows{{"a\rb"}}));
}

TEST_F(TextTables, JsonlHasNamedTexts) {
  const TableSpec spec{.format = TableFormat::kJsonl, .columns = {"text", "label"}, .label = "label"};
  const TextTable table =
      open("{\"label\": 1, \"text\": \"a\\nb\", \"more\": []}\n{\"text\": \"\", \"label\": \"x\"}", spec);
  EXPECT_EQ(rows_of(table), (Rows{{"a\nb", "1"}, {"", "x"}}));
  refuses("{\"text\": \"a\"}\n", spec, "table:1: there is no \"label\"");
  refuses("{\"text\": 5, \"label\": 1}\n", spec, "table:1: \"text\" is 5, and no text");
  refuses("{\"text\": \"a\", \"label\": null}\n", spec,
          "table:1: \"label\" is null, and neither a text nor a number");
  refuses("{\"text\": \"a\", \"label\": 1}\n\n", spec, "table:2: an empty line");
  refuses("{\"text\": \"a\", \"label\": 1}\n[1]\n", spec, "table:2: not an object");
  refuses("{\"text\": \"a\", \"label\": 1}\n{\n", spec, "table:2: not valid JSON");
}

TEST_F(TextTables, AListBecomesColumns) {
  const TableSpec spec{
      .format = TableFormat::kJsonl, .columns = {"a", "more", "b"}, .list = "more", .label = "b"};
  const TextTable table = open("{\"b\": 1, \"more\": [\"x\", \"2\"], \"a\": \"y\"}\n", spec);
  EXPECT_EQ(table.columns(), (std::vector<std::string>{"a", "more0", "more1", "b"}));
  EXPECT_EQ(rows_of(table), (Rows{{"y", "x", "2", "1"}}));
  const std::string first = "{\"a\": \"1\", \"more\": [\"x\"], \"b\": 2}\n";
  refuses(first + "{\"a\": \"1\", \"more\": [\"x\", \"y\"], \"b\": 2}\n", spec,
          "table:2: \"more\" has 2 texts, and 1 in the first line");
  refuses(first + "{\"a\": \"1\", \"more\": [], \"b\": 2}\n", spec, "table:2: \"more\" is an empty list");
  refuses(first + "{\"a\": \"1\", \"more\": \"x\", \"b\": 2}\n", spec, "table:2: \"more\" is no list");
  refuses("{\"a\": \"1\", \"more\": [1], \"b\": 2}\n", spec, "table:1: \"more\" is 1, and no text");
}

TEST_F(TextTables, WhatIsWrongHasItsLine) {
  refuses("a,b\n1,\"2\n3\"\n4\n", {}, "table:4: 1 fields in a table of 2 columns");
  refuses("a,b\n1,2,3\n", {}, "table:2: 3 fields in a table of 2 columns");
  refuses("a,b\n1,2\n\n3,4\n", {}, "table:3: an empty line");
  refuses("a,b\n1,2\n3,\"4\n5,6\n", {}, "table:3: a quote that is never closed");
  refuses("a,b\n1,\u00e9\xff\n", {}, "table:2:4: not UTF-8");
  refuses("a,a\n1,2\n", {}, "table:1: two columns are called \"a\"");
  refuses("a,b\n", {}, "there is not a single row");
  refuses("", {}, "there is not a single row");
  const TextTable table = open("text,label\nx,5\ny,yes\nz,1e99\nw,-1\nv,2.5\n");
  const std::vector<std::string> names{"no", "yes"};
  test::expect_error(ExitCode::kInput, {"table:1: there is no column \"pair\""},
                     [&] { table.column("pair"); });
  EXPECT_EQ(table.class_at(1, 1, names), 1);
  EXPECT_EQ(table.number_at(4, 1), 2.5f);
  for (const std::size_t row : {0, 3, 4})
    test::expect_error(ExitCode::kInput, {fmt::format("table:{}: the label", row + 2), "is none of 2"},
                       [&] { table.class_at(row, 1, names); });
  for (const std::size_t row : {1, 2})
    test::expect_error(ExitCode::kInput, {fmt::format("table:{}: the label", row + 2), "is no number"},
                       [&] { table.number_at(row, 1); });
}

TEST_F(TextTables, GlueHasItsLayouts) {
  const GlueTask cola = find_glue_task("cola").value();
  const TextTable sentences =
      open("gj04\t0\t*\tThe \"box\tx\n", {.format = TableFormat::kTsv, .has_header = false});
  EXPECT_EQ(sentences.columns().size(), 5u);
  const TextTable table =
      open("gj04\t1\t\tOur friends won't buy this.\nc-05\t0\t*\tThem \"did.\n", cola.table);
  EXPECT_EQ(table.at(1, table.column(cola.text)), "Them \"did.");
  EXPECT_EQ(table.class_at(0, table.column(cola.label), cola.labels), 1);

  const GlueTask qqp = find_glue_task("qqp").value();
  const TextTable pairs = open(
      "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\tWhy?\tWhy not?\t0\n4\t5\t6\tcut short\n",
      qqp.table);
  EXPECT_EQ(pairs.rows(), 1u);
  EXPECT_EQ(pairs.skipped_lines(), std::vector<int64_t>{3});
  EXPECT_EQ(pairs.place(0), 0u);
  EXPECT_EQ(pairs.at(0, pairs.column(qqp.pair)), "Why not?");
  const GlueTask mnli = find_glue_task("mnli").value();
  EXPECT_EQ(mnli.labels, (std::vector<std::string>{"entailment", "neutral", "contradiction"}));
  EXPECT_TRUE(find_glue_task("stsb")->labels.empty());
  for (const char* name : {"sst2", "mrpc", "qnli", "rte"}) EXPECT_EQ(find_glue_task(name)->labels.size(), 2u);
  EXPECT_FALSE(find_glue_task("wnli2"));
}

}  // namespace
}  // namespace recollect
