// What a model's logits say of each sample, as text: JSON lines, a table, or what GLUE's and SQuAD's own evaluations read.
// In lines and tables it stands beside what the sample's row has in the file that was read.
#pragma once

#include <string>
#include <vector>

#include "engine/core/spelled.h"
#include "launch/predict/predictor.h"
#include "launch/train/open_data.h"

namespace recollect {

// jsonl: an object a sample, or a question. csv, tsv: a row with the same values, a column for each probability. glue: a line "index<tab>prediction" a sample. squad: one object, of answers by
// question's id.
enum class PredictionFormat { kJsonl, kCsv, kTsv, kGlue, kSquad };
template <>
inline constexpr std::array<std::string_view, 5> kSpellings<PredictionFormat> = {"jsonl", "csv", "tsv",
                                                                                 "glue", "squad"};

// Error kConfiguration where the task has no such format.
void check_format(const Config& config, PredictionFormat format);

// `labels`: names of the model's classes; as many as there are, or none.
std::string predictions_text(const Config& config, const OpenedData& data, const Logits& logits,
                             const std::vector<std::string>& labels, PredictionFormat format);

}  // namespace recollect
