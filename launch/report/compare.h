// Two runs beside each other: loss, bytes by category and phase, and times. Of each run speaks the rank that holds
// the most at its peak.
#pragma once

#include <string>
#include <vector>

#include "engine/io/json.h"
#include "launch/report/rank_report.h"
#include "launch/report/training_curves.h"

namespace recollect {

const RankReport& fullest(const std::vector<RankReport>& run);

// `curves`: of both; none where they have none.
std::string comparison_text(const std::vector<RankReport>& a, const std::vector<RankReport>& b,
                            const std::vector<TrainingCurves>& curves = {});
// {"unit", phase: {category: bytes of b less those of a}, ..., "step": seconds, "exposed": seconds}
nlohmann::ordered_json comparison_json(const std::vector<RankReport>& a, const std::vector<RankReport>& b);

}  // namespace recollect
