// Writes a Timeline as compact JSON and reads it back. Tables are stored by column. Times are nanoseconds;
// each op has the gap since the previous op of its stream (or since the start of the run), its duration, and
// the part of the gap that was a wait. A duration of -1 marks an op that was skipped. Reading checks that
// every index is in range and every time is within its run.
#pragma once

#include "engine/io/json.h"
#include "launch/report/checked_json.h"
#include "launch/report/timeline.h"

namespace recollect {

// The names that the numbers stand for: {"streams", "phases", "categories", "spaces"}.
nlohmann::ordered_json names_json();
// {"unit", the names, "program": {"ops", "memory"}, "predicted", and if measured "step", "measured"}
nlohmann::ordered_json timeline_json(const Timeline& timeline);
Timeline read_timeline(const JsonPlace& json);

}  // namespace recollect
