#include "launch/doctor/rounds.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace recollect {

namespace {

using Differences = std::vector<std::pair<double, std::string>>;

constexpr double DeviceModel::*kRates[] = {
    &DeviceModel::gemm_f32,          &DeviceModel::gemm_bf16,          &DeviceModel::gemm_f64,
    &DeviceModel::gemm_fp8,          &DeviceModel::attention_f32,      &DeviceModel::attention_bf16,
    &DeviceModel::vector_flops,      &DeviceModel::memory_bandwidth,   &DeviceModel::link_bandwidth,
    &DeviceModel::to_host_bandwidth, &DeviceModel::to_device_bandwidth};
constexpr double DeviceModel::*kTimes[] = {&DeviceModel::link_latency, &DeviceModel::launch_overhead};
constexpr std::pair<const char*, RateCurve DeviceModel::*> kCurves[] = {
    {"memory", &DeviceModel::memory_levels},
    {"collectives", &DeviceModel::collectives},
    {"copies", &DeviceModel::copies}};

// The points of both curves; at equal amounts the faster one. A round with less time may lack the largest
// amounts.
RateCurve faster(const RateCurve& a, const RateCurve& b, const std::string& name, Differences& differences) {
  constexpr double kSame = 1.001;  // amounts are means of the same ops
  RateCurve both = a;
  for (const RatePoint& point : b) {
    const auto same = std::find_if(both.begin(), both.end(), [&](const RatePoint& other) {
      return std::max(point.amount, other.amount) < kSame * std::min(point.amount, other.amount);
    });
    if (same == both.end()) {
      both.push_back(point);
      continue;
    }
    const auto [slow, fast] = std::minmax(point.rate, same->rate);
    differences.emplace_back(fast / slow - 1, name);
    same->rate = fast;
  }
  std::sort(both.begin(), both.end(),
            [](const RatePoint& x, const RatePoint& y) { return x.amount < y.amount; });
  return both;
}

DeviceModel faster(const DeviceModel& a, const DeviceModel& b, Differences& differences) {
  DeviceModel both = a;
  for (double DeviceModel::*rate : kRates) both.*rate = std::max(a.*rate, b.*rate);
  for (double DeviceModel::*time : kTimes) both.*time = std::min(a.*time, b.*time);
  for (const auto& [name, curve] : kCurves) both.*curve = faster(a.*curve, b.*curve, name, differences);
  for (const auto& [kernel, curve] : b.kernels) {
    RateCurve& known = both.kernels[kernel];
    known = faster(known, curve, kernel, differences);
  }
  for (std::size_t i = 0; i < both.fewer_threads.size() && i < b.fewer_threads.size(); ++i)
    both.fewer_threads[i] = faster(a.fewer_threads[i], b.fewer_threads[i], differences);
  return both;
}

}  // namespace

DeviceModel measure_in_rounds(const std::function<DeviceModel()>& measure, Spread& spread) {
  DeviceModel device = measure();
  for (spread.rounds = 1; spread.rounds < 2 || (spread.rounds < kMostRounds && spread.typical > kWideSpread);
       ++spread.rounds) {
    Differences differences;
    device = faster(device, measure(), differences);
    spread.rates = static_cast<int>(differences.size());
    if (differences.empty()) continue;
    std::sort(differences.begin(), differences.end());
    spread.typical = differences[differences.size() / 2].first;
    std::tie(spread.largest, spread.of) = differences.back();
  }
  device.spread = spread.typical;
  return device;
}

std::string spread_text(const Spread& spread) {
  return fmt::format("{} rounds: rates differ by {:.0f} % (median of {}), at most by {:.0f} % ({})",
                     spread.rounds, 100 * spread.typical, spread.rates, 100 * spread.largest, spread.of);
}

}  // namespace recollect
