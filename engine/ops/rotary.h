// The frequencies of rotary positions (Su et al., "RoFormer", 2021) and their scalings, as Transformers'
// modeling_rope_utils has them; in double, for every backend. Pair i of a head of d elements turns by
// theta^(-2i/d) from one position to the next.
#pragma once

#include <cmath>
#include <numbers>
#include <string>

#include "engine/core/host_device.h"
#include "engine/graph/attributes.h"

namespace recollect {

class RotaryFrequencies {
 public:
  // Of a rotary_table's attributes; throws where the scaling is none that is known.
  explicit RotaryFrequencies(const Attributes& attributes)
      : theta_(attributes.real("theta")), head_size_(static_cast<double>(attributes.integer("head_size"))) {
    const std::string& scaling = attributes.text("scaling");
    if (scaling == "default") return;
    factor_ = attributes.real("factor");
    require(factor_ > 0, "rotary positions are scaled by a positive factor");
    if (scaling == "linear") return;
    require(scaling == "llama3", "rotary positions are scaled in no way called '" + scaling + "'");
    low_ = attributes.real("low_freq_factor");
    high_ = attributes.real("high_freq_factor");
    original_positions_ = static_cast<double>(attributes.integer("original_positions"));
    require(0 < low_ && low_ < high_ && original_positions_ > 0,
            "low_freq_factor is positive and less than high_freq_factor, and there are original positions");
  }

  RECOLLECT_HOST_DEVICE double of_pair(int64_t pair) const {
    const double plain = 1.0 / std::pow(theta_, static_cast<double>(2 * pair) / head_size_);
    if (high_ == 0.0) return plain / factor_;
    // Whole turns in the positions that the model was first trained with: what turns often stays, what turns
    // seldom is slowed down, and what is between takes part in both.
    const double turns = original_positions_ * plain / (2.0 * std::numbers::pi);
    if (turns > high_) return plain;
    if (turns < low_) return plain / factor_;
    const double smooth = (turns - low_) / (high_ - low_);
    return (1.0 - smooth) * plain / factor_ + smooth * plain;
  }

 private:
  double theta_, head_size_;
  double factor_ = 1.0;
  double low_ = 0.0, high_ = 0.0, original_positions_ = 0.0;  // of llama3; zeros are another scaling
};

}  // namespace recollect
