#include "checkpointing/device_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "engine/core/error.h"

namespace recollect {

namespace {

// Two cores of a server processor with AVX-512 and AMX. Products: oneDNN 2.6 reaches 205-224 GFLOP/s in f32
// and 415-450 in bf16 there; the rest is of the order that `recollect calibrate` finds, which is what to use
// for a real answer.
DeviceModel cpu() {
  return {.name = "cpu",
          .gemm_f32 = 210e9,
          .gemm_bf16 = 430e9,
          .gemm_f64 = 1e9,
          .attention_f32 = 130e9,
          .attention_bf16 = 130e9,
          .vector_flops = 20e9,
          .memory_bandwidth = 15e9,
          .link_bandwidth = 3e9,
          .link_latency = 20e-6,
          .to_host_bandwidth = 6e9,
          .to_device_bandwidth = 6e9,
          .disk_write_bandwidth = 0.5e9,
          .disk_read_bandwidth = 1e9,
          .launch_overhead = 5e-6,
          .threads = 2};
}

// What cuDNN 9.19's attention reaches on an H200 in bf16, by the FLOPs of one head of one sample, of which causal attention
// counts the half that it computes: its own published figures for head size 128 at 2048 and 8192 tokens, 484 and 644
// TFLOP/s forward, 370 and 541 backward; below these, of head size 64 at 1024, what the steps of a small decoder leave for it.
std::map<std::string, RateCurve, std::less<>> hopper_attention() {
  return {{"attention bf16", {{1.34e8, 400e12}, {1.07e9, 484e12}, {1.72e10, 644e12}}},
          {"attention_backward bf16", {{3.4e8, 305e12}, {2.7e9, 370e12}, {4.3e10, 541e12}}}};
}

// NVIDIA H200 SXM, fitted to steps that one has taken (tests/bench/gpu/measured.json): products in bf16 reach 620 TFLOP/s
// among other ops, whatever the model; one large product alone reached 736 there (data sheet: 989). An op of a step that is
// replayed as a graph takes 4.6 us whatever it does, by the many small ones of a large encoder at a small batch. Passes over memory are taken to
// reach 3.5 of the data sheet's 4.8 TB/s. fp16 is as bf16; of FP8 it has twice bf16, taken to be reached as bf16's is. f32
// products run outside the tensor cores unless device.tf32 asks for them: 67 TFLOP/s by the data sheet, of which 50 is a
// guess. f32 attention, our own kernel, has not been timed: its instructions, with dropout, are 0.71 multiply-adds, of which a
// multiprocessor starts four a clock at 1.75 GHz, and four fifths of that are taken to be reached; forward and backward make
// nine products where seven are counted. f64: 67 TFLOP/s, data sheet.
// NVLink 4: 450 GB/s each way by the data sheet; all-gathers on eight ranks reach about 370. PCIe
// 5 x16: 63 GB/s in theory, about 55 reached, each way. The host's memory: two sockets of eight channels of DDR5-4800, 614
// GB/s by the data sheet, shared by eight ranks, of which three quarters are taken to be reached. Disk: one PCIe 5 NVMe drive a
// GPU, of the order of data sheets.
DeviceModel h200() {
  return {.name = "h200",
          .gemm_f32 = 50e12,
          .gemm_bf16 = 620e12,
          .gemm_f64 = 67e12,
          .gemm_fp8 = 1240e12,
          .attention_f32 = 26e12,
          .attention_bf16 = 420e12,
          .vector_flops = 60e12,
          .memory_bandwidth = 3.5e12,
          .link_bandwidth = 370e9,
          .link_latency = 10e-6,
          .to_host_bandwidth = 55e9,
          .to_device_bandwidth = 55e9,
          .host_memory_bandwidth = 55e9,
          .disk_write_bandwidth = 5e9,
          .disk_read_bandwidth = 10e9,
          .launch_overhead = 4.6e-6,
          .kernels = hopper_attention()};
}

// NVIDIA H100 SXM, 80 GB: the H200's processor, with other memory. 3.35 TB/s by the data sheet, of which streaming
// kernels reach what they reach of the H200's.
DeviceModel h100() {
  DeviceModel device = h200();
  device.name = "h100";
  device.memory_bandwidth = 2.45e12;
  return device;
}

// NVIDIA A100 SXM, 80 GB. Data sheet: 312 TFLOP/s in bf16, 19.5 in f32 outside the tensor cores, 19.5 in f64; memory
// 2.04 TB/s, NVLink 3 300 GB/s each way, PCIe 4 x16 32 GB/s. Large products are taken to reach 0.8 of
// that, as they do on an H200; what a step's products reach was not measured. Of the links 235 and 25 GB/s. Attention in bf16: FlashAttention 2's figures, causal, sequence 2048, head
// size 128, 165 forward and 140 backward. The host's memory: two sockets of eight channels of DDR4-3200, 410 GB/s. Disk: one
// PCIe 4 NVMe drive.
DeviceModel a100() {
  return {.name = "a100",
          .gemm_f32 = 14.5e12,
          .gemm_bf16 = 250e12,
          .gemm_f64 = 19.5e12,
          .attention_f32 = 7e12,
          .attention_bf16 = 150e12,
          .vector_flops = 17.5e12,
          .memory_bandwidth = 1.7e12,
          .link_bandwidth = 235e9,
          .link_latency = 10e-6,
          .to_host_bandwidth = 25e9,
          .to_device_bandwidth = 25e9,
          .host_memory_bandwidth = 38e9,
          .disk_write_bandwidth = 3e9,
          .disk_read_bandwidth = 6e9,
          .launch_overhead = 2e-6};
}

// NVIDIA B200 SXM. Data sheet: 2250 TFLOP/s in bf16, 75 in f32 outside the tensor cores, 37 in f64; memory 8 TB/s, NVLink 5
// 900 GB/s each way, PCIe 5 x16. Products reach a smaller share of it than Hopper's do, at the same power for more units:
// 0.7 here, a guess, as is that attention in bf16 gains on the H200's what products gain; FP8 is again twice bf16. The host's
// memory: two sockets of eight channels of DDR5-5600, 717 GB/s. The rest is the H200's share.
DeviceModel b200() {
  return {.name = "b200",
          .gemm_f32 = 56e12,
          .gemm_bf16 = 1575e12,
          .gemm_f64 = 37e12,
          .gemm_fp8 = 3150e12,
          .attention_f32 = 28e12,
          .attention_bf16 = 840e12,
          .vector_flops = 67e12,
          .memory_bandwidth = 6.6e12,
          .link_bandwidth = 700e9,
          .link_latency = 10e-6,
          .to_host_bandwidth = 55e9,
          .to_device_bandwidth = 55e9,
          .host_memory_bandwidth = 67e9,
          .disk_write_bandwidth = 5e9,
          .disk_read_bandwidth = 10e9,
          .launch_overhead = 2e-6};
}

// NVIDIA V100 SXM2, 32 GB, for estimates alone: it has no bf16, whose rates here are those of fp16. Data sheet: 125 TFLOP/s in
// fp16, 15.7 in f32, 7.8 in f64; memory 900 GB/s, NVLink 2 150 GB/s each way, PCIe 3 x16 16 GB/s. What is reached is the A100's
// share; the share of attention is a guess, since FlashAttention 2 and cuDNN's attention begin with Ampere. The host's memory:
// two sockets of six channels of DDR4-2666, 256 GB/s. Disk: one PCIe 3 NVMe drive.
DeviceModel v100() {
  return {.name = "v100",
          .gemm_f32 = 11.7e12,
          .gemm_bf16 = 100e12,
          .gemm_f64 = 7.8e12,
          .attention_f32 = 5.6e12,
          .attention_bf16 = 47e12,
          .vector_flops = 14e12,
          .memory_bandwidth = 0.79e12,
          .link_bandwidth = 118e9,
          .link_latency = 10e-6,
          .to_host_bandwidth = 12.5e9,
          .to_device_bandwidth = 12.5e9,
          .host_memory_bandwidth = 24e9,
          .disk_write_bandwidth = 3e9,
          .disk_read_bandwidth = 6e9,
          .launch_overhead = 2e-6};
}

// NVIDIA GeForce RTX 3090, 24 GB. Data sheet (GA102 whitepaper): 71 TFLOP/s in bf16 with sums in f32, 35.6 in f32, 0.556 in f64;
// memory 936 GB/s, PCIe 4 x16, over which ranks talk too: most have no NVLink bridge. What is reached is the A100's share,
// of attention too. The host's memory: two channels of DDR4-3200, 51 GB/s, of one card. Disk: one PCIe 4 NVMe drive.
DeviceModel rtx3090() {
  return {.name = "rtx3090",
          .gemm_f32 = 26.5e12,
          .gemm_bf16 = 57e12,
          .gemm_f64 = 0.556e12,
          .attention_f32 = 12.8e12,
          .attention_bf16 = 34e12,
          .vector_flops = 32e12,
          .memory_bandwidth = 0.8e12,
          .link_bandwidth = 25e9,
          .link_latency = 10e-6,
          .to_host_bandwidth = 25e9,
          .to_device_bandwidth = 25e9,
          .host_memory_bandwidth = 38e9,
          .disk_write_bandwidth = 3e9,
          .disk_read_bandwidth = 6e9,
          .launch_overhead = 2e-6};
}

// NVIDIA GeForce RTX 4090, 24 GB. Data sheet (Ada whitepaper): 165 TFLOP/s in bf16 and 330 in FP8 with sums in f32, 82.6 in
// f32, 1.29 in f64; memory 1008 GB/s, PCIe 4 x16, over which ranks talk too: there is no NVLink. What is reached is the
// A100's share. The host's memory: two channels of DDR5-5600, 90 GB/s, of one card. Disk: one PCIe 4 NVMe drive.
DeviceModel rtx4090() {
  return {.name = "rtx4090",
          .gemm_f32 = 61.5e12,
          .gemm_bf16 = 132e12,
          .gemm_f64 = 1.29e12,
          .gemm_fp8 = 264e12,
          .attention_f32 = 29.5e12,
          .attention_bf16 = 79e12,
          .vector_flops = 74e12,
          .memory_bandwidth = 0.86e12,
          .link_bandwidth = 25e9,
          .link_latency = 10e-6,
          .to_host_bandwidth = 25e9,
          .to_device_bandwidth = 25e9,
          .host_memory_bandwidth = 67e9,
          .disk_write_bandwidth = 3e9,
          .disk_read_bandwidth = 6e9,
          .launch_overhead = 2e-6};
}

struct Preset {
  std::string_view name;
  DeviceModel (*make)();
};

constexpr Preset kPresets[] = {{"cpu", cpu},   {"h200", h200}, {"h100", h100},       {"a100", a100},
                               {"b200", b200}, {"v100", v100}, {"rtx3090", rtx3090}, {"rtx4090", rtx4090}};

const Preset* preset_called(std::string_view name) {
  for (const Preset& preset : kPresets)
    if (preset.name == name) return &preset;
  return nullptr;
}

constexpr double DeviceModel::*kArithmetic[] = {&DeviceModel::gemm_f32,      &DeviceModel::gemm_bf16,
                                                &DeviceModel::gemm_f64,      &DeviceModel::gemm_fp8,
                                                &DeviceModel::attention_f32, &DeviceModel::attention_bf16,
                                                &DeviceModel::vector_flops};

void scale(RateCurve& curve, double factor) {
  for (RatePoint& point : curve) point.rate *= factor;
}

void scale_arithmetic(DeviceModel& device, double factor) {
  if (factor == 1) return;
  for (double DeviceModel::*rate : kArithmetic) device.*rate *= factor;
  for (auto& [kernel, curve] : device.kernels) scale(curve, factor);
}

void scale_memory(DeviceModel& device, double factor) {
  device.memory_bandwidth *= factor;
  scale(device.memory_levels, factor);
}

// The rates of a rank that is alone on the device.
DeviceModel with_threads(const DeviceModel& device, int64_t threads) {
  if (device.threads == 0) return device;
  const auto distance = [&](const DeviceModel& d) {
    return std::abs(std::log(static_cast<double>(threads) / static_cast<double>(d.threads)));
  };
  const DeviceModel* nearest = &device;
  for (const DeviceModel& fewer : device.fewer_threads)
    if (distance(fewer) < distance(*nearest)) nearest = &fewer;
  DeviceModel alone = *nearest;
  alone.fewer_threads.clear();
  alone.disk_write_bandwidth = device.disk_write_bandwidth;
  alone.disk_read_bandwidth = device.disk_read_bandwidth;
  alone.disk_writes = device.disk_writes;
  alone.disk_reads = device.disk_reads;
  const double factor = static_cast<double>(threads) / static_cast<double>(alone.threads);
  scale_arithmetic(alone, factor);
  scale_memory(alone, std::min(1.0, factor));
  alone.threads = threads;
  return alone;
}

}  // namespace

double rate_at(const RateCurve& curve, double amount) {
  require(!curve.empty(), "a rate has a point");
  if (amount <= curve.front().amount) return curve.front().rate;
  if (amount >= curve.back().amount) return curve.back().rate;
  const auto above = std::upper_bound(curve.begin(), curve.end(), amount,
                                      [](double a, const RatePoint& point) { return a < point.amount; });
  const RatePoint &a = above[-1], &b = *above;
  const double along = std::log(amount / a.amount) / std::log(b.amount / a.amount);
  return a.rate * std::pow(b.rate / a.rate, along);
}

DeviceModel share_of_rank(const DeviceModel& device, int64_t threads, int64_t ranks) {
  if (threads == 0) threads = device.cores > 0 ? std::max<int64_t>(1, device.cores / ranks) : device.threads;
  DeviceModel share = with_threads(device, threads);
  if (device.cores == 0) return share;
  const auto cores = static_cast<double>(device.cores), n = static_cast<double>(ranks);
  const double busy = n * static_cast<double>(threads);
  share.spare_cores = std::max(0.0, cores / n - static_cast<double>(threads));
  scale_arithmetic(share, std::min(1.0, cores / busy));
  for (double DeviceModel::*disk : {&DeviceModel::disk_write_bandwidth, &DeviceModel::disk_read_bandwidth})
    share.*disk /= n;
  for (RateCurve DeviceModel::*disk : {&DeviceModel::disk_writes, &DeviceModel::disk_reads})
    scale(share.*disk, 1 / n);
  // Memory has what all ranks' threads together get out of it, and its caches hold all ranks' bytes.
  const DeviceModel node = with_threads(device, std::min(static_cast<int64_t>(busy), device.cores));
  share.memory_bandwidth = std::min(share.memory_bandwidth, node.memory_bandwidth / n);
  for (RatePoint& point : share.memory_levels)
    point.rate = std::min(point.rate, rate_at(node.memory_levels, n * point.amount) / n);
  return share;
}

double gemm_rate(const DeviceModel& device, DType operands) {
  switch (operands) {
    case DType::kF64:
      return device.gemm_f64;
    case DType::kF16:
    case DType::kBF16:
      return device.gemm_bf16;
    case DType::kE4M3:
    case DType::kE5M2:
      return device.gemm_fp8 > 0 ? device.gemm_fp8 : device.gemm_bf16;
    default:
      return device.gemm_f32;
  }
}

std::vector<std::string_view> device_preset_names() {
  std::vector<std::string_view> names;
  for (const Preset& preset : kPresets) names.push_back(preset.name);
  return names;
}

DeviceModel device_preset(std::string_view name) {
  if (const Preset* preset = preset_called(name)) return preset->make();
  throw Error(ExitCode::kConfiguration, "no device model is called '" + std::string(name) + "'",
              fmt::format("{}, or a file that `recollect calibrate --out FILE` has written",
                          fmt::join(device_preset_names(), ", ")));
}

bool is_preset(const DeviceModel& device) { return preset_called(device.name) != nullptr; }

bool tells_times(std::string_view device) { return device != kPresets[0].name; }

std::string rates_of(const std::string& device) {
  return preset_called(device) ? "the preset " + device : device;
}

}  // namespace recollect
