// The time of a recorded step by class of op (op_class.h) and by kind, with the rates that follow from the
// costs of the ops and the highest rates of this machine. It covers the compute stream; one line sums up the
// other streams.
#pragma once

#include <array>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "launch/report/timeline.h"

namespace recollect {

struct ProfileRow {
  std::string kind;
  Phase phase = Phase::kForward;
  OpClass is = OpClass::kElementwise;
  int64_t runs = 0;  // in a step
  double seconds = 0, flops = 0, bytes = 0;
  double least = 0;  // seconds at the roofline; 0 if unknown
  double lost() const { return seconds - least; }
};

struct Profile {
  double step = 0;                // seconds; the first micro-batch represents those that were not recorded
  std::vector<ProfileRow> kinds;  // of the compute stream, by decreasing time
  std::array<ProfileRow, kSpellings<OpClass>.size()> classes;
  double waiting = 0;        // of the compute stream for other streams
  double beside = 0;         // ops of all other streams
  int64_t recorded = 1;      // number of steps; the times are their medians
  double not_timed = 0;      // seconds of a step whose ops are not timed; 0 if the same
  double between() const;    // the rest of the step: starting ops
  double launching() const;  // the extra time of a step that is launched and timed op by op
};

// The profile of the measured step, or of the predicted one if none was measured.
Profile make_profile(const Timeline& timeline);

nlohmann::ordered_json profile_json(const Profile& profile);

// "where the time of a step went: contraction 61.2 %, ...": one line.
std::string classes_line(const Profile& profile);

// One line for each class, and for the ten kinds that lose the most time against the roofline, or that take
// the most time if it is unknown.
std::string profile_text(const Timeline& timeline);

}  // namespace recollect
