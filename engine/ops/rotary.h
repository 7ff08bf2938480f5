// The frequencies of rotary positions (Su et al., "RoFormer", 2021) and their scalings,
// as in Transformers' modeling_rope_utils; in double, for every backend. Unscaled, pair
// i of d elements is rotated by theta^(-2i/d) from one position to the next.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "engine/core/host_device.h"
#include "engine/graph/attributes.h"

namespace recollect {

// How frequencies change for a sequence of more than `limit` tokens.
struct RotaryGrowth {
  int64_t limit = INT64_MAX;
  double factor = 0,
         elements = 0;  // of "dynamic", and number of rotated elements; factor 0: a second set of frequencies
};

// The frequency of a pair. `longer`: the frequencies beyond the limit, if the scaling has a second set.
RECOLLECT_HOST_DEVICE inline double rotary_frequency(const double* plain, const double* longer,
                                                     const RotaryGrowth& growth, int64_t pair,
                                                     int64_t length) {
  if (length <= growth.limit) return plain[pair];
  if (growth.factor == 0) return longer[pair];
  // theta grows so that the lowest frequency falls as if positions were divided by the factor.
  const double times = static_cast<double>(length) / static_cast<double>(growth.limit),
               base = growth.factor * times - (growth.factor - 1);
  return plain[pair] * std::pow(base, -2.0 * static_cast<double>(pair) / (growth.elements - 2));
}

class RotaryFrequencies {
 public:
  // Reads the attributes of a rotary_table. Throws if the scaling is unknown.
  explicit RotaryFrequencies(const Attributes& attributes);

  double of_pair(int64_t pair, int64_t length) const {
    return rotary_frequency(plain_.data(), longer_.data(), growth_, pair, length);
  }
  const std::vector<double>& plain() const { return plain_; }
  const std::vector<double>& longer() const { return longer_; }
  const RotaryGrowth& growth() const { return growth_; }
  double attention_factor() const { return attention_factor_; }
  int64_t length() const { return length_; }  // of the sequence, if no input gives it

 private:
  void scale(const Attributes& attributes, const std::string& scaling);
  void scale_by_turns(const Attributes& attributes);
  void scale_by_ramp(const Attributes& attributes, double theta);

  std::vector<double> plain_, longer_;
  RotaryGrowth growth_;
  double attention_factor_ = 1;
  int64_t length_ = 0;
};

}  // namespace recollect
