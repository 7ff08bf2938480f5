// Compares two runs: loss, bytes by category and phase, and times. The rank with the highest peak represents
// its run.
#pragma once

#include <string>
#include <vector>

#include "engine/io/json.h"
#include "launch/report/rank_report.h"
#include "launch/report/training_curves.h"

namespace recollect {

const RankReport& fullest(const std::vector<RankReport>& run);

// `curves` are those of both runs, or empty.
std::string comparison_text(const std::vector<RankReport>& a, const std::vector<RankReport>& b,
                            const std::vector<TrainingCurves>& curves = {});
// {"unit", phase: {category: bytes of b minus bytes of a}, ..., "step": seconds, "exposed": seconds}
nlohmann::ordered_json comparison_json(const std::vector<RankReport>& a, const std::vector<RankReport>& b);

}  // namespace recollect
