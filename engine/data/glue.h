// The files of GLUE's tasks: which columns hold the texts and the label, what the labels are called, in Transformers'
// order, and by what the task is judged.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/text_table.h"

namespace recollect {

struct GlueTask {
  std::string_view name;
  TableSpec table;
  std::string text, pair, label;    // columns; no pair: one text
  std::vector<std::string> labels;  // none: the label is a number
  std::vector<std::string> metrics;
};

// How a file of the task is laid out. CoLA's have no header, but for the one without labels.
TableSpec layout_of(const GlueTask& task, const std::string& path);

// What the file calls its rows, in a column "index" or "id"; nothing where it has none.
std::vector<std::string> ids_of(const TextTable& table);

// cola, sst2, mrpc, qqp, stsb, mnli, qnli or rte; nothing for another name.
std::optional<GlueTask> find_glue_task(std::string_view name);

}  // namespace recollect
