// Where the time of a recorded step went: by class of op (op_class.h) and by kind, with the rates that the ops' costs make
// of it, beside what this machine can do at most. Of the compute stream; copies and gathers on streams of their own
// are in a line beside it.
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
  int64_t runs = 0;  // of a step
  double seconds = 0, flops = 0, bytes = 0;
  double least = 0;  // seconds that the roof allows; 0 where it is not known
  double lost() const { return seconds - least; }
};

struct Profile {
  double step = 0;                // seconds; the first micro-batch stands for those that were not recorded
  std::vector<ProfileRow> kinds;  // of the compute stream, by falling time
  std::array<ProfileRow, kSpellings<OpClass>.size()> classes;
  double waiting = 0;      // the compute stream stood for other streams
  double beside = 0;       // ops of all other streams
  int64_t recorded = 1;    // steps whose medians these are
  double not_timed = 0;    // seconds of a step whose ops are not timed; 0 where that is alike
  double between() const;  // what is left of the step: starting ops
  double launching()
      const;  // of it and of the ops: what a step takes more for being launched and timed op by op
};

// Of the measured step, or where nothing was measured of the predicted one.
Profile make_profile(const Timeline& timeline);

nlohmann::ordered_json profile_json(const Profile& profile);

// "where the time of a step went: contraction 61.2 %, ...": one line.
std::string classes_line(const Profile& profile);

// A line for each class, and the ten kinds that lose most time to the roof, or take most where none is known.
std::string profile_text(const Timeline& timeline);

}  // namespace recollect
