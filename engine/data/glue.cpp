#include "engine/data/glue.h"

#include "engine/io/input_file.h"

namespace recollect {

std::optional<GlueTask> find_glue_task(std::string_view name) {
  // Rows that were cut short, of which QQP and MNLI have some, are passed over, as GLUE's own readers do.
  const TableSpec named{.format = TableFormat::kTsv, .skips_short_rows = true};
  const TableSpec cola{.format = TableFormat::kTsv,
                       .has_header = false,
                       .columns = {"source", "label", "mark", "sentence"},
                       .skips_short_rows = true};
  const std::vector<std::string> entailed{"entailment", "not_entailment"};
  const std::vector<GlueTask> tasks{
      {"cola", cola, "sentence", "", "label", {"unacceptable", "acceptable"}, {"matthews"}},
      {"sst2", named, "sentence", "", "label", {"negative", "positive"}, {"accuracy"}},
      {"mrpc",
       named,
       "#1 String",
       "#2 String",
       "Quality",
       {"not_equivalent", "equivalent"},
       {"accuracy", "f1"}},
      {"qqp",
       named,
       "question1",
       "question2",
       "is_duplicate",
       {"not_duplicate", "duplicate"},
       {"accuracy", "f1"}},
      {"stsb", named, "sentence1", "sentence2", "score", {}, {"pearson", "spearman"}},
      {"mnli",
       named,
       "sentence1",
       "sentence2",
       "gold_label",
       {"entailment", "neutral", "contradiction"},
       {"accuracy"}},
      {"qnli", named, "question", "sentence", "label", entailed, {"accuracy"}},
      {"rte", named, "sentence1", "sentence2", "label", entailed, {"accuracy"}}};
  for (const GlueTask& task : tasks)
    if (task.name == name) return task;
  return std::nullopt;
}

TableSpec layout_of(const GlueTask& task, const std::string& path) {
  TableSpec table = task.table;
  constexpr std::string_view kUnlabelled = "index\t";
  if (!table.has_header && InputFile(path).text(kUnlabelled.size()) == kUnlabelled) {
    table.has_header = true;
    table.columns.clear();
  }
  return table;
}

std::vector<std::string> ids_of(const TextTable& table) {
  std::vector<std::string> ids;
  for (const std::string& name : table.columns())
    if (ids.empty() && (name == "index" || name == "id"))
      for (std::size_t row = 0, at = table.column(name); row < table.rows(); ++row)
        ids.emplace_back(table.at(row, at));
  return ids;
}

}  // namespace recollect
