// `recollect calibrate --backend cuda`: measures the rates of one GPU with its own clocks. Rates of ops come
// from training steps of small models, as on CPUs; memory, copies and launches are measured separately.
#pragma once

#include <string>

#include "checkpointing/device_model.h"
#include "launch/doctor/measure_ops.h"

namespace recollect {

struct GpuCalibration {
  GpuSteps steps;
  double bytes = 512 << 20;  // size of one array
  int tiny_ops = 400;        // ops in the program that measures launches
  static GpuCalibration of(double seconds);
};

struct GpuMeasurement {
  DeviceModel device;
  double both_to_host = 0, both_to_device = 0;  // bytes/s with both directions busy
  std::string remarks;                          // "not measured: ...", and copies in both directions
};

// Throws kConfiguration if there is no backend or no device.
GpuMeasurement measure_gpu(const GpuCalibration& calibration);

// Only matrix products and memory, for the roofline of a profile, in a second.
struct GpuRoof {
  double flops = 0, bandwidth = 0;
};
GpuRoof measure_gpu_roof(DType operands, bool tf32);

}  // namespace recollect
