// Times the ops of a few training steps of small models, on the OpenMP threads of the calling thread. Similar
// ranks run on all other cores at the same time.
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
  // The extra time of the median step over its undisturbed ops, as a fraction of those.
  double disturbed = 0;
};

// A small model and its batch, with heads and sequences that match the width. `share` is its part of the
// time, so that the slow samples are reached too.
struct StepSample {
  int layers, width, heads, vocabulary, samples, sequence;
  double dropout, share;
  bool of_all = false;  // with all families, for their special ops
};

// The same for a CUDA device, whose clocks time the ops. Each sample runs with each entry of `words` (a
// precision) in turn. When the time is over, the rest is skipped, except the first sample of each. `launch`
// is the fixed time of every op in seconds, which is not part of its own time.
struct GpuSteps {
  std::vector<StepSample> samples;
  std::vector<std::string>
      words;  // "training.precision=bf16", "training.precision=bf16 training.fp8=true", ...
  double seconds = 12;
};
struct GpuRates {
  std::map<std::string, RateCurve, std::less<>> kernels;  // rates with device.tf32 have the dtype "tf32"
  std::vector<std::string> left_out;
};
GpuRates measure_ops_of_gpu(const GpuSteps& steps, double launch);

// `precision` is "fp32" or "bf16". Takes about `seconds`; this may skip the largest models.
OpRates measure_ops(const std::string& precision, int threads, double seconds);

// The rates of the run's own model in its precision, on one rank, with the run's micro-batch, or with so few
// layers, samples and tokens that some steps fit into `seconds`. `device` holds the rates of memory for this
// decision; its kernels may be unknown.
OpRates measure_ops_of(const Config& run, int threads, double seconds, const DeviceModel& device);

}  // namespace recollect
