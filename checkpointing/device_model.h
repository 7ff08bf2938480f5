// What a device is to the simulator: a handful of rates. Rates are those that kernels reach, not those of
// data sheets.
#pragma once

#include <string>
#include <string_view>

namespace recollect {

struct DeviceModel {
  std::string name;
  double gemm_f32 = 0, gemm_bf16 = 0,
         gemm_f64 = 0;  // FLOP/s of matrix products, by the dtype of their operands
  double attention_f32 = 0,
         attention_bf16 = 0;    // FLOP/s of attention; in f64 it is taken to run as products do
  double vector_flops = 0;      // FLOP/s of everything else
  double memory_bandwidth = 0;  // bytes/s, read and written counted alike
  double link_bandwidth = 0;    // bytes/s that a rank sends to its peers
  double link_latency = 0;      // seconds a collective takes whatever its size
  double to_host_bandwidth = 0, to_device_bandwidth = 0;
  double disk_write_bandwidth = 0, disk_read_bandwidth = 0;  // of a rank; 0: not known
  double launch_overhead = 0;                                // seconds that every op costs its stream
};

// "cpu" or "h200". Error kConfiguration for any other name.
DeviceModel device_preset(std::string_view name);

}  // namespace recollect
