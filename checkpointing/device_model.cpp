#include "checkpointing/device_model.h"

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
          .launch_overhead = 5e-6};
}

// NVIDIA H200 SXM. Dense bf16 products: 790 TFLOP/s measured at 8192^3 (data sheet: 989). f32 products run as
// TF32, half the rate of bf16. f64: 67 TFLOP/s, data sheet. Attention in
// bf16: cuDNN 9.19, causal, sequence 2048, head size 128, 484 forward and 370 backward; in f32 a guess.
// Memory: 4.8 TB/s by the data sheet, of which streaming kernels reach about 4.0. NVLink 4: 450 GB/s each way
// by the data sheet; all-gathers on eight ranks reach about 370. PCIe 5 x16: 63 GB/s in theory, about 55
// reached, each way. Disk: one PCIe 5 NVMe drive a GPU, of the order of data sheets. Launches: a few
// microseconds, hidden in a captured graph.
DeviceModel h200() {
  return {.name = "h200",
          .gemm_f32 = 395e12,
          .gemm_bf16 = 790e12,
          .gemm_f64 = 67e12,
          .attention_f32 = 100e12,
          .attention_bf16 = 420e12,
          .vector_flops = 60e12,
          .memory_bandwidth = 4.0e12,
          .link_bandwidth = 370e9,
          .link_latency = 10e-6,
          .to_host_bandwidth = 55e9,
          .to_device_bandwidth = 55e9,
          .disk_write_bandwidth = 5e9,
          .disk_read_bandwidth = 10e9,
          .launch_overhead = 2e-6};
}

}  // namespace

DeviceModel device_preset(std::string_view name) {
  if (name == "cpu") return cpu();
  if (name == "h200") return h200();
  throw Error(ExitCode::kConfiguration, "no device model is called '" + std::string(name) + "'",
              "cpu, h200, or a file that `recollect calibrate --out FILE` has written");
}

}  // namespace recollect
