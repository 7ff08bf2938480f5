// Makes one self-contained HTML page of a run, or of two runs to compare. It needs no network and no other
// file. Its numbers are those of the JSON. Data that several ranks share (the program, the predicted times)
// is stored once.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/report/rank_report.h"
#include "launch/report/training_curves.h"

namespace recollect {

// A mark near the beginning of every page.
inline constexpr std::string_view kPageMark = "<title>Recollect report</title>";

// Only the first ranks of a run have their timeline in the page; the tables have all ranks.
inline constexpr int kTimelinesInPage = 16;

struct PageParts {
  std::span<const TrainingCurves> curves = {};  // one for each run, or empty
  std::string_view chart = {};                  // an HTML section above all others
  // If the run continues: when the page was written, in seconds since 1970. The page then reloads itself
  // every few seconds.
  int64_t live = 0;
};

// Each run is the reports of its ranks, in rank order; there is at least one run.
std::string html_page(std::span<const std::vector<RankReport>> runs, const PageParts& parts = {});

}  // namespace recollect
