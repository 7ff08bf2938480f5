// A Timeline as compact JSON and back. Tables are columns; times are nanoseconds, each op's as the gap since
// the op before it on its stream (or since the run began), how long it ran, and how much of the gap was spent
// waiting; a duration of -1 is an op that was passed over. What is read is checked: every index is in range,
// every time is within its run.
#pragma once

#include "engine/io/json.h"
#include "launch/report/checked_json.h"
#include "launch/report/timeline.h"

namespace recollect {

// The names behind the numbers: {"streams", "phases", "categories", "spaces"}.
nlohmann::ordered_json names_json();
// {"unit", the names, "program": {"ops", "memory"}, "predicted", and where it was measured "step",
// "measured"}
nlohmann::ordered_json timeline_json(const Timeline& timeline);
Timeline read_timeline(const JsonPlace& json);

}  // namespace recollect
