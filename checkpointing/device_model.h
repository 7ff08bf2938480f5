// What a device is to the simulator: rates that kernels reach, not those of data sheets, and the cores that
// the ranks of a node share. A rank's own rates follow from the model, its threads and the number of ranks
// alone, so that all ranks reckon with the same.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/dtype.h"

namespace recollect {

// A rate where it depends on how much there is to do. Ascending amounts; between two of them a straight line
// on logarithmic scales, beyond them the nearest rate.
struct RatePoint {
  double amount = 0, rate = 0;
  bool operator==(const RatePoint&) const = default;
};
using RateCurve = std::vector<RatePoint>;
double rate_at(const RateCurve& curve, double amount);

struct DeviceModel {
  std::string name;
  double gemm_f32 = 0, gemm_bf16 = 0,
         gemm_f64 = 0;  // FLOP/s of matrix products, by the dtype of their operands; f16 runs as bf16 does
  double gemm_fp8 = 0;  // of 8-bit codes; 0: they run as bf16 does
  double attention_f32 = 0,
         attention_bf16 = 0;    // FLOP/s of attention; in f64 it is taken to run as products do
  double vector_flops = 0;      // FLOP/s of everything else
  double memory_bandwidth = 0;  // bytes/s, read and written counted alike
  double link_bandwidth = 0;    // bytes/s that a rank sends to its peers
  double link_latency = 0;      // seconds a collective takes whatever its size
  double to_host_bandwidth = 0, to_device_bandwidth = 0;
  double host_memory_bandwidth = 0;  // a rank's share of it, of a device with memory of its own; else 0
  double disk_write_bandwidth = 0, disk_read_bandwidth = 0;  // of a rank; 0: not known
  double launch_overhead = 0;                                // seconds that every op costs its stream

  // How far the rates of two measurements lay apart, as a share of the slower (their median); 0: nobody has looked.
  double spread = 0;

  int64_t threads = 0;  // of the rank that reaches these rates; 0: it is no matter of threads
  int64_t cores = 0;    // that the ranks of a node share; 0: every rank has a device of its own
  // Where these are known they say more than the numbers above. Of memory, by the bytes touched until the
  // same ones are touched again, which is what caches go by; of transfers, by the bytes of one.
  RateCurve memory_levels = {}, collectives = {}, copies = {}, disk_writes = {}, disk_reads = {};
  // By op kind and dtype, "linear f32": FLOP/s by the op's FLOPs, those of one head of one sample for
  // attention; of ops without products, bytes/s by its bytes. "... dropout" where dropout draws numbers. A kind
  // that is not among them goes by the one that its OpDef names, and else by the numbers above.
  std::map<std::string, RateCurve, std::less<>> kernels = {};
  std::vector<DeviceModel> fewer_threads = {};  // the same device as a rank with fewer threads finds it

  // By op kind and dtype, as `kernels`: what ops took in a run beside launch_overhead, as a multiple of what all else
  // here says.
  std::map<std::string, double, std::less<>> measured = {};

  // Of a rank's share: the cores on which its side streams take nothing from its compute stream.
  double spare_cores = std::numeric_limits<double>::infinity();
};

// The device as one of `ranks` ranks finds it, all of them on one node and busy. `threads`: of each rank; 0:
// its share of the cores, or those that were measured. Rates of other thread counts than the model has are in
// proportion to the nearest one.
DeviceModel share_of_rank(const DeviceModel& device, int64_t threads, int64_t ranks);

// FLOP/s of matrix products whose operands are of that dtype.
double gemm_rate(const DeviceModel& device, DType operands);

// "cpu", "h200", "h100", "a100", "b200", "v100", "rtx3090", "rtx4090". Error kConfiguration for any other name.
std::vector<std::string_view> device_preset_names();
DeviceModel device_preset(std::string_view name);
bool is_preset(const DeviceModel& device);
// Whose rates a predicted time goes by, from the name of a model: "the preset cpu", or a file of `recollect calibrate`.
std::string rates_of(const std::string& device);

// The name of a model that was measured where the program runs, for the times that are shown (launch/doctor/machine_rates.h).
inline constexpr const char* kRatesOfMachine = "rates of this machine";
// Whether times by the model of that name are shown: the preset cpu is of no machine in particular.
bool tells_times(std::string_view device);

}  // namespace recollect
