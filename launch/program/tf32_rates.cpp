#include "launch/program/tf32_rates.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace recollect {

DeviceModel with_tf32(DeviceModel device) {
  std::vector<std::pair<std::string, RateCurve>> measured;
  for (const auto& [kernel, curve] : device.kernels)
    if (const std::size_t at = kernel.find(" tf32"); at != std::string::npos)
      measured.emplace_back(std::string(kernel).replace(at + 1, 4, "f32"), curve);
  device.gemm_f32 = device.gemm_bf16 / 2;  // of tensor cores: half the rate of bf16
  for (auto& [kernel, curve] : measured) {
    if (kernel == "linear f32")
      device.gemm_f32 =
          std::max_element(curve.begin(), curve.end(), [](const RatePoint& a, const RatePoint& b) {
            return a.rate < b.rate;
          })->rate;
    device.kernels[kernel] = std::move(curve);
  }
  return device;
}

}  // namespace recollect
