#include "engine/data/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "engine/data/glue.h"
#include "engine/data/labels.h"
#include "engine/data/prepare_choices.h"
#include "engine/data/prepare_classification.h"
#include "engine/data/prepare_questions.h"
#include "engine/data/prepare_tags.h"
#include "engine/data/squad.h"
#include "engine/data/text_file.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

[[noreturn]] void refuse(const std::string& what, std::string hint = {}) {
  throw Error(ExitCode::kConfiguration, what, std::move(hint));
}

void check(const PreparationSpec& spec) {
  require(spec.sequence_length >= 1 && spec.vocabulary_size >= 1 && spec.threads >= 1,
          "samples are prepared by numbers out of range");
  if (spec.paths.empty()) refuse("data.path is missing", "name a file or a folder");
  if (spec.stride < 0) refuse(fmt::format("a stride of {} tokens", spec.stride));
  if (!can_prepare(spec.format, spec.task))
    refuse(fmt::format("{} data is not for {}", name_of(spec.format), name_of(spec.task)));
  for (auto name = spec.labels.begin(); name != spec.labels.end(); ++name)
    if (std::find(spec.labels.begin(), name, *name) != name)
      refuse(fmt::format("two labels are called {}", printable(*name)));
}

SequenceSpec sequence_of(const PreparationSpec& spec) {
  return {spec.sequence_length, spec.truncation, spec.vocabulary_size, spec.token_types};
}

std::string or_else(const std::string& given, const std::string& otherwise) {
  return given.empty() ? otherwise : given;
}

// The first file's samples, and then those of the others.
void append(PackedSamples samples, Prepared& prepared) {
  if (prepared.samples)
    prepared.samples->append(std::move(samples));
  else
    prepared.samples = std::make_unique<PackedSamples>(std::move(samples));
}

std::vector<TextTable> read_tables(const PreparationSpec& spec, const TableSpec& table, BadRecords& bad) {
  std::vector<TextTable> tables;
  for (const std::string& path : spec.paths) tables.emplace_back(path, table, bad);
  return tables;
}

void finish(const PreparationSpec& spec, const BadRecords& bad, Prepared& prepared) {
  if (prepared.samples->size() == 0 && bad.count() > 0) bad.fail_for_all(list_some(spec.paths));
  for (std::string& remark : bad.remarks()) prepared.remarks.push_back(std::move(remark));
}

// Numbers of samples of the one file that there is, where samples are fewer than its rows: those of the rows, which the file
// may have itself.
void number_rows(const TextTable& table, const std::vector<std::size_t>& left_out, Prepared& prepared) {
  if (left_out.empty() && (!prepared.ids.empty() || !table.has_left_out())) return;
  std::vector<std::string> given = std::move(prepared.ids);
  prepared.ids.clear();
  for (std::size_t row = 0; row < table.rows(); ++row)
    if (!std::binary_search(left_out.begin(), left_out.end(), row))
      prepared.ids.push_back(given.size() == table.rows() ? given[row] : fmt::to_string(table.place(row)));
}

// The rows that samples are of.
void note_rows(const TextTable& table, std::size_t file, const std::vector<std::size_t>& left_out,
               Prepared& prepared) {
  for (std::size_t row = 0; row < table.rows(); ++row)
    if (!std::binary_search(left_out.begin(), left_out.end(), row))
      prepared.rows.push_back({file, table.line(row)});
}

// As run_classification has them.
std::vector<std::string> find_labels(const std::vector<TextTable>& tables, const std::string& text,
                                     const std::string& label, OnBadRecord on_bad_record) {
  std::set<std::string, std::less<>> labels;
  for (const TextTable& table : tables)
    for (std::size_t row = 0, at = table.column(label), of_text = table.column(text); row < table.rows();
         ++row) {
      const std::string_view found = table.at(row, at);
      const bool passed_over = on_bad_record == OnBadRecord::kSkip ||
                               (on_bad_record == OnBadRecord::kSkipBlank && table.at(row, of_text).empty());
      if (found.empty() && !passed_over) table.fail(row, fmt::format("{} is empty", escaped_name(label)));
      if (!found.empty() && !labels.contains(found)) labels.emplace(found);
    }
  std::vector<std::string> sorted(labels.begin(), labels.end());
  sort_labels(sorted);
  return sorted;
}

// How texts and labels of one of the formats for classification are found.
struct Columns {
  TableSpec table;
  std::string text, pair, label;
};

Columns columns_of(const PreparationSpec& spec) {
  if (spec.text.empty()) refuse("data.columns.text is missing", "name the column that holds the text");
  if (spec.labelled && spec.label.empty())
    refuse("data.columns.label is missing", "name the column that holds the label");
  Columns columns{{}, spec.text, spec.pair, spec.labelled ? spec.label : ""};
  columns.table.has_header = spec.has_header;
  columns.table.format = spec.format == DataFormat::kCsv   ? TableFormat::kCsv
                         : spec.format == DataFormat::kTsv ? TableFormat::kTsv
                                                           : TableFormat::kJsonl;
  if (columns.table.format == TableFormat::kJsonl)
    for (const std::string& key : {columns.text, columns.pair, columns.label})
      if (!key.empty()) columns.table.columns.push_back(key);
  columns.table.label = columns.label;
  return columns;
}

void classify(const std::vector<TextTable>& tables, const ClassificationSpec& spec,
              const Tokenizer& tokenizer, BadRecords& bad, bool notes_rows, Prepared& prepared) {
  for (std::size_t file = 0; file < tables.size(); ++file) {
    const TextTable& table = tables[file];
    std::vector<std::size_t> left_out;
    append(prepare_classification(table, tokenizer, spec, bad, &left_out), prepared);
    if (notes_rows) note_rows(table, file, left_out, prepared);
    if (tables.size() == 1) number_rows(table, left_out, prepared);
    if (const std::vector<int64_t>& skipped = table.skipped_lines(); !skipped.empty())
      prepared.remarks.push_back(fmt::format(
          "{}: {} of {} rows are cut short and left out, the first in line {}", printable(table.path()),
          skipped.size(), skipped.size() + table.rows(), skipped.front()));
  }
}

Prepared prepare_table(const PreparationSpec& spec, const Tokenizer& tokenizer) {
  if (spec.problem == ProblemType::kMultiLabel)
    refuse("several labels at once do not come from a column",
           "data.format must be jsonl, with input_ids and labels, and no data.columns");
  const Columns columns = columns_of(spec);
  const bool numbers = spec.problem == ProblemType::kRegression;
  if (numbers && !spec.labels.empty()) refuse("a regression has numbers for labels, and no names");
  BadRecords bad(spec.on_bad_record);
  const std::vector<TextTable> tables = read_tables(spec, columns.table, bad);
  Prepared prepared{.labels = spec.labels};
  if (!numbers && spec.labelled && spec.labels.empty())
    prepared.labels = find_labels(tables, columns.text, columns.label, spec.on_bad_record);
  prepared.metrics =
      numbers ? std::vector<std::string>{"pearson", "spearman"} : std::vector<std::string>{"accuracy"};
  classify(tables,
           {columns.text, columns.pair, columns.label, prepared.labels, sequence_of(spec), spec.threads},
           tokenizer, bad, !spec.labelled, prepared);
  finish(spec, bad, prepared);
  return prepared;
}

// The numbers in GLUE's files are those of the task's own names; where others say the order of these names, each number
// becomes that of its name. Nothing where the names are others.
std::vector<int32_t> order_of(const std::vector<std::string>& own, const std::vector<std::string>& names) {
  std::vector<int32_t> order;
  if (own.size() != names.size()) return order;
  for (const std::string& name : own) {
    const auto at = std::find_if(names.begin(), names.end(),
                                 [&](const std::string& one) { return same_letters(one, name); });
    if (at == names.end()) return {};
    order.push_back(static_cast<int32_t>(at - names.begin()));
  }
  return order;
}

Prepared prepare_glue(const PreparationSpec& spec, const GlueTask& task, const Tokenizer& tokenizer) {
  if (task.labels.empty() && !spec.labels.empty())
    refuse(fmt::format("{} has numbers for labels, and no names", task.name));
  std::vector<TextTable> tables;
  Prepared prepared{.labels = spec.labels.empty() ? task.labels : spec.labels, .metrics = task.metrics};
  BadRecords bad(spec.on_bad_record);
  for (const std::string& path : spec.paths) {
    const TextTable& table = tables.emplace_back(path, layout_of(task, path), bad);
    const std::vector<std::string> ids = ids_of(table);
    prepared.ids.insert(prepared.ids.end(), ids.begin(), ids.end());
  }
  const std::vector<int32_t> order = order_of(task.labels, prepared.labels);
  classify(tables,
           {or_else(spec.text, task.text), or_else(spec.pair, task.pair),
            spec.labelled ? or_else(spec.label, task.label) : "",
            order.empty() ? prepared.labels : task.labels, sequence_of(spec), spec.threads, order},
           tokenizer, bad, false, prepared);
  // Numbers of some samples are of no use.
  if (static_cast<int64_t>(prepared.ids.size()) != prepared.samples->size()) prepared.ids.clear();
  finish(spec, bad, prepared);
  return prepared;
}

// Keys of the first record of a file of JSONL, where nobody has named any; none where it is no object.
std::set<std::string> first_keys(const PreparationSpec& spec) {
  std::set<std::string> keys;
  if (spec.format != DataFormat::kJsonl || !spec.text.empty()) return keys;
  const std::string whole = read_utf8(spec.paths.front());
  const std::size_t begin = std::min(whole.find_first_not_of(" \t\r\n"), whole.size());
  const nlohmann::json first = nlohmann::json::parse(
      whole.begin() + static_cast<std::ptrdiff_t>(begin),
      whole.begin() + static_cast<std::ptrdiff_t>(std::min(whole.find('\n', begin), whole.size())), nullptr,
      false);
  if (first.is_object())
    for (const auto& [key, value] : first.items()) keys.insert(key);
  return keys;
}

Prepared prepare_multiple_choice(const PreparationSpec& spec, const Tokenizer& tokenizer) {
  const std::set<std::string> keys = first_keys(spec);
  const bool swag = keys.contains("sent1") && keys.contains("ending0");  // its columns as keys
  const bool json = spec.format == DataFormat::kJsonl && !swag;
  ChoicesSpec choices{.text = or_else(spec.text, json ? "prompt" : "sent1"),
                      .header = json ? "" : or_else(spec.pair, "sent2"),
                      .ending = json ? or_else(spec.pair, "endings") : "ending",
                      .label = spec.labelled ? or_else(spec.label, "label") : "",
                      .sequence = sequence_of(spec),
                      .threads = spec.threads};
  TableSpec layout;
  if (json) {
    layout = {.format = TableFormat::kJsonl,
              .columns = {choices.text, choices.ending},
              .list = choices.ending,
              .label = choices.label};
    if (spec.labelled) layout.columns.push_back(choices.label);
  } else if (swag) {
    layout = {
        .format = TableFormat::kJsonl, .columns = {choices.text, choices.header}, .label = choices.label};
    for (int i = 0; keys.contains(fmt::format("ending{}", i)); ++i)
      layout.columns.push_back(fmt::format("ending{}", i));
    if (spec.labelled) layout.columns.push_back(choices.label);
  }
  BadRecords bad(spec.on_bad_record);
  const std::vector<TextTable> tables = read_tables(spec, layout, bad);
  Prepared prepared{.metrics = {"accuracy"}};
  const std::size_t count = count_choices(tables.front(), choices.ending);
  for (std::size_t i = 0; i < count; ++i) prepared.labels.push_back(fmt::to_string(i));
  if (!spec.labels.empty() && spec.labels.size() != count)
    refuse(fmt::format("{} labels, and {} endings", spec.labels.size(), count));
  for (std::size_t file = 0; file < tables.size(); ++file) {
    const TextTable& table = tables[file];
    if (const std::size_t other = count_choices(table, choices.ending); other != count)
      throw Error(ExitCode::kInput, fmt::format("{}: {} endings, and {} in {}", table.path(), other, count,
                                                tables.front().path()));
    std::vector<std::size_t> left_out;
    append(prepare_choices(table, tokenizer, choices, bad, &left_out), prepared);
    if (!spec.labelled) note_rows(table, file, left_out, prepared);
    if (tables.size() == 1) number_rows(table, left_out, prepared);
  }
  finish(spec, bad, prepared);
  return prepared;
}

Prepared prepare_question_answering(const PreparationSpec& spec, const Tokenizer& tokenizer) {
  Prepared prepared{.metrics = {"squad"}, .questions = std::make_unique<QuestionAnsweringSet>()};
  BadRecords bad(spec.on_bad_record);
  const QuestionsSpec questions{spec.labelled, spec.stride, sequence_of(spec), spec.threads};
  for (const std::string& path : spec.paths) {
    const std::size_t context = prepared.questions->contexts.size();
    read_squad(path, spec.labelled, *prepared.questions, bad);
    check_ids(path, *prepared.questions);
    append(prepare_questions(path, context, tokenizer, questions, *prepared.questions), prepared);
  }
  finish(spec, bad, prepared);
  return prepared;
}

Prepared prepare_token_classification(const PreparationSpec& spec, const Tokenizer& tokenizer) {
  std::vector<TaggedWords> files;
  BadRecords bad(spec.on_bad_record);
  const std::set<std::string> keys = first_keys(spec);
  const char* words = keys.contains("words") && !keys.contains("tokens") ? "words" : "tokens";
  const char* tag_key = keys.contains("ner_tags") && !keys.contains("tags") ? "ner_tags" : "tags";
  for (const std::string& path : spec.paths)
    files.push_back(spec.format == DataFormat::kConll
                        ? TaggedWords::read_conll(path, spec.labelled, bad)
                        : TaggedWords::read_jsonl(path, or_else(spec.text, words),
                                                  spec.labelled ? or_else(spec.label, tag_key) : "", bad));
  Prepared prepared{.labels = spec.labels, .metrics = {"entities"}};
  if (spec.labelled && spec.labels.empty()) prepared.labels = find_tags(files);
  if (spec.labelled && prepared.labels.empty())
    throw Error(ExitCode::kInput, spec.paths.front() + ": there is not a single tag");
  const TagsSpec tags{spec.labelled ? prepared.labels : std::vector<std::string>(), sequence_of(spec),
                      spec.threads};
  for (std::size_t file = 0; file < files.size(); ++file) {
    std::vector<std::size_t> left_out;
    append(prepare_tags(files[file], tokenizer, tags, bad, &left_out), prepared);
    for (std::size_t i = 0; !spec.labelled && i < files[file].sentences(); ++i)
      if (!std::binary_search(left_out.begin(), left_out.end(), i))
        prepared.rows.push_back({file, files[file].line_of_sentence(i)});
  }
  finish(spec, bad, prepared);
  return prepared;
}

}  // namespace

bool can_prepare(DataFormat format, DataTask task) {
  switch (task) {
    case DataTask::kSequenceClassification:
      return format == DataFormat::kCsv || format == DataFormat::kTsv || format == DataFormat::kJsonl ||
             find_glue_task(name_of(format)).has_value();
    case DataTask::kMultipleChoice:
      return format == DataFormat::kSwag || format == DataFormat::kJsonl;
    case DataTask::kQuestionAnswering:
      return format == DataFormat::kSquad;
    case DataTask::kTokenClassification:
      return format == DataFormat::kConll || format == DataFormat::kJsonl;
  }
  return false;
}

Prepared prepare(const PreparationSpec& spec, const Tokenizer& tokenizer) {
  check(spec);
  switch (spec.task) {
    case DataTask::kSequenceClassification:
      if (const auto task = find_glue_task(name_of(spec.format))) return prepare_glue(spec, *task, tokenizer);
      return prepare_table(spec, tokenizer);
    case DataTask::kMultipleChoice:
      return prepare_multiple_choice(spec, tokenizer);
    case DataTask::kQuestionAnswering:
      return prepare_question_answering(spec, tokenizer);
    case DataTask::kTokenClassification:
      return prepare_token_classification(spec, tokenizer);
  }
  throw Error(ExitCode::kInternal, "a task that nothing is prepared for");
}

}  // namespace recollect
