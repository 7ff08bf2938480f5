// Writes a RankReport as JSON and reads it back, in bytes and seconds without rounding. The text of a file
// has an indented part for people, followed by the timeline on one long line.
#pragma once

#include <string>

#include "engine/io/json.h"
#include "launch/report/checked_json.h"
#include "launch/report/rank_report.h"

namespace recollect {

// Bytes by category, and "total".
nlohmann::ordered_json row_json(const MemoryLedger::Row& row);
// Seconds by part.
nlohmann::ordered_json start_json(const StartTimes& times);
// Bytes by phase and category, the peaks, and the reserved bytes.
nlohmann::ordered_json ledger_json(const MemoryLedger& ledger);
// Throws kInput, also if the categories do not sum to the totals.
MemoryLedger read_ledger(const JsonPlace& json);

// Without the timeline.
nlohmann::ordered_json summary_json(const RankReport& report);

// `with_timeline` is false if only tables will be made from the report.
std::string rank_report_text(const RankReport& report, bool with_timeline = true);
// `source` names the file in errors.
RankReport read_rank_report(std::string_view text, const std::string& source);

}  // namespace recollect
