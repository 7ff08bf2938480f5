// What a model's logits say of each sample, as text: JSON lines, or what GLUE's and SQuAD's own evaluations read.
#pragma once

#include <string>
#include <vector>

#include "engine/core/spelled.h"
#include "launch/predict/predictor.h"
#include "launch/train/open_data.h"

namespace recollect {

// jsonl: an object a sample, or a question. glue: a line "index<tab>prediction" a sample. squad: one object, of answers by
// question's id.
enum class PredictionFormat { kJsonl, kGlue, kSquad };
template <>
inline constexpr std::array<std::string_view, 3> kSpellings<PredictionFormat> = {"jsonl", "glue", "squad"};

// Error kConfiguration where the task has no such format.
void check_format(const Config& config, PredictionFormat format);

// `labels`: names of the model's classes; as many as there are, or none.
std::string predictions_text(const Config& config, const OpenedData& data, const Logits& logits,
                             const std::vector<std::string>& labels, PredictionFormat format);

}  // namespace recollect
