// Rates that are measured several times, some time apart: what differs between two rounds is what the machine's other work,
// its clock and its caches make of a measurement, and no property of the device. The faster rate of each is kept, as others can
// only slow it down; how far rounds lie apart is said beside the rates (DeviceModel::spread).
#pragma once

#include <functional>
#include <string>

#include "checkpointing/device_model.h"

namespace recollect {

struct Spread {
  int rounds = 0, rates = 0;  // rates that two rounds have
  double typical = 0;         // the median of what the faster round has more, as a share: 0.04 is 4 %
  double largest = 0;
  std::string of;  // whose that is: "linear f32"
};

// Above it a round is added; with what is above the other after all rounds, times cannot be predicted.
inline constexpr double kWideSpread = 0.1, kUselessSpread = 0.3;
inline constexpr int kMostRounds = 3;

// Two rounds of `measure`, or more where they lie far apart. `spread` is of the last round and all before it.
DeviceModel measure_in_rounds(const std::function<DeviceModel()>& measure, Spread& spread);

// A line: "2 rounds: rates differ by 4 % (median of 61), at most by 31 % (linear f32)".
std::string spread_text(const Spread& spread);

}  // namespace recollect
