// `recollect calibrate --backend cuda`: what one GPU reaches, by its own clocks. Rates of ops are those of training steps of
// small models, as on CPUs; memory, copies and launches are measured alone.
#pragma once

#include <string>

#include "checkpointing/device_model.h"
#include "launch/doctor/measure_ops.h"

namespace recollect {

struct GpuCalibration {
  GpuSteps steps;
  double bytes = 512 << 20;  // of one array
  int tiny_ops = 400;        // of the program that tells what a launch costs
  static GpuCalibration of(double seconds);
};

struct GpuMeasurement {
  DeviceModel device;
  double both_to_host = 0, both_to_device = 0;  // bytes/s of copies while the other direction is busy
  std::string remarks;                          // "not measured: ...", and copies both ways
};

// Error kConfiguration where there is no backend or no device.
GpuMeasurement measure_gpu(const GpuCalibration& calibration);

// Matrix products alone, and memory: for the roof of a profile, in a second.
struct GpuRoof {
  double flops = 0, bandwidth = 0;
};
GpuRoof measure_gpu_roof(DType operands, bool tf32);

}  // namespace recollect
