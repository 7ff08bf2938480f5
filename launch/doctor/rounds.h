// Measures rates several times, some time apart. A difference between rounds comes from other work on the
// machine, its clock and its caches, and is no property of the device. The faster rate of each is kept,
// because disturbances only slow it down. The difference is stored with the rates (DeviceModel::spread).
#pragma once

#include <functional>
#include <string>

#include "checkpointing/device_model.h"

namespace recollect {

struct Spread {
  int rounds = 0, rates = 0;  // rates: those in two rounds
  double typical = 0;         // median lead of the faster round; 0.04 is 4 %
  double largest = 0;
  std::string of;  // the kernel of `largest`: "linear f32"
};

// Above kWideSpread a round is added. Above kUselessSpread, after all rounds, times cannot be predicted.
inline constexpr double kWideSpread = 0.1, kUselessSpread = 0.3;
inline constexpr int kMostRounds = 3;

// Runs two rounds of `measure`, or more if they differ much. `spread` compares the last round with all before
// it.
DeviceModel measure_in_rounds(const std::function<DeviceModel()>& measure, Spread& spread);

// One line: "2 rounds: rates differ by 4 % (median of 61), at most by 31 % (linear f32)".
std::string spread_text(const Spread& spread);

}  // namespace recollect
