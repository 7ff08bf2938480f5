// Times the ops of a few training steps of small models, on the calling thread's OpenMP threads, while as
// many ranks like it as have cores left do the same.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpointing/device_model.h"
#include "launch/config/config.h"

namespace recollect {

struct OpRates {
  std::map<std::string, RateCurve, std::less<>> kernels;  // as in DeviceModel
  double overhead = 0;                                    // seconds between two ops
  // What a step took, in the middle, beyond its ops where nothing disturbs them, as a share of those.
  double disturbed = 0;
};

// A small model and its batch; heads and sequences to match the width. A sample's share of the time lets the slow ones be
// reached too.
struct StepSample {
  int layers, width, heads, vocabulary, samples, sequence;
  double dropout, share;
  bool of_all = false;  // families, for the ops that only they have
};

// The same of a CUDA device, whose ops are timed by its clocks: each sample with each of these words, a precision, in turn.
// What the time does not reach is left out, but the first of each. `launch`: seconds that every op takes whatever it does,
// which are not counted among its own.
struct GpuSteps {
  std::vector<StepSample> samples;
  std::vector<std::string>
      words;  // "training.precision=bf16", "training.precision=bf16 training.fp8=true", ...
  double seconds = 12;
};
struct GpuRates {
  std::map<std::string, RateCurve, std::less<>>
      kernels;  // those of words with device.tf32 are of dtype "tf32"
  std::vector<std::string> left_out;
};
GpuRates measure_ops_of_gpu(const GpuSteps& steps, double launch);

// `precision`: "fp32" or "bf16". Takes about so many seconds, which may leave the largest models out.
OpRates measure_ops(const std::string& precision, int threads, double seconds);

// Of the run's own model in its precision, on one rank: of the run's micro-batch, or of as few layers, samples and tokens as
// so many seconds allow some steps of. `device`: rates of memory, by which that is decided; its kernels need not be known.
OpRates measure_ops_of(const Config& run, int threads, double seconds, const DeviceModel& device);

}  // namespace recollect
