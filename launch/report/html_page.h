// One self-contained HTML page of a run, or of two to be compared: it needs no network and no other file. Its
// numbers are those of the JSON; what several ranks share (the program, the times predicted) is in it once.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/report/rank_report.h"
#include "launch/report/training_curves.h"

namespace recollect {

// Near the beginning of every page.
inline constexpr std::string_view kPageMark = "<title>Recollect report</title>";

// Of a run's ranks the first so many have their timeline in the page; the tables are of all.
inline constexpr int kTimelinesInPage = 16;

struct PageParts {
  std::span<const TrainingCurves> curves = {};  // of each run; none, or as many as there are runs
  std::string_view chart = {};                  // a section above all others, as HTML
  // Where the run goes on: when the page was written, in seconds since 1970. It then reads itself again every few seconds.
  int64_t live = 0;
};

// Each run: the reports of its ranks, by rank; at least one.
std::string html_page(std::span<const std::vector<RankReport>> runs, const PageParts& parts = {});

}  // namespace recollect
