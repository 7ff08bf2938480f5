// Detects a loss that is far above the previous ones, measured in their standard deviations (the z-score, as
// in llm.c). Such a loss does not count in the statistics for the next ones.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace recollect {

class SpikeDetector {
 public:
  static constexpr int64_t kWindow = 100;  // losses
  static constexpr int64_t kEnough = 20;   // losses before the first is compared

  // 0: nothing is a spike.
  explicit SpikeDetector(double threshold) : threshold_(threshold) {}

  // The z-score of a loss that is a spike, otherwise 0.
  double look(double loss) {
    if (threshold_ == 0 || !std::isfinite(loss)) return 0;
    if (const double z = z_score(loss); count_ >= kEnough && z > threshold_) return z;
    losses_[static_cast<std::size_t>(count_++ % kWindow)] = loss;
    return 0;
  }

 private:
  double z_score(double loss) const {
    const int64_t held = count_ < kWindow ? count_ : kWindow;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < held; ++i) sum += losses_[static_cast<std::size_t>(i)];
    const double mean = sum / static_cast<double>(held);
    for (int64_t i = 0; i < held; ++i) {
      const double difference = losses_[static_cast<std::size_t>(i)] - mean;
      squares += difference * difference;
    }
    const double deviation = std::sqrt(squares / static_cast<double>(held));
    if (loss <= mean) return 0;
    return deviation > 0 ? (loss - mean) / deviation : INFINITY;
  }

  double threshold_;
  int64_t count_ = 0;
  std::array<double, kWindow> losses_{};
};

}  // namespace recollect
