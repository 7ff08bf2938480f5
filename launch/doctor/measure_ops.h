// Times the ops of a few training steps of small models, on the calling thread's OpenMP threads, while as
// many ranks like it as have cores left do the same.
#pragma once

#include <map>
#include <string>

#include "checkpointing/device_model.h"

namespace recollect {

struct OpRates {
  std::map<std::string, RateCurve, std::less<>> kernels;  // as in DeviceModel
  double overhead = 0;                                    // seconds between two ops
};

// `precision`: "fp32" or "bf16". Takes about so many seconds, which may leave the largest models out.
OpRates measure_ops(const std::string& precision, int threads, double seconds);

}  // namespace recollect
