// Tells which elements a dropout op keeps. It is a pure function of the key and the global element index. So
// it does not depend on how tokens and heads are sharded over ranks, and backward computes it again instead
// of saving a mask.
#pragma once

#include <cstdint>

#include "engine/core/philox.h"
#include "engine/graph/attributes.h"
#include "engine/runtime/kernel.h"

namespace recollect::reference {

class DropoutMask {
 public:
  DropoutMask(const Attributes& attributes, const RunState& state)
      : p_(state.training ? attributes.real("p") : 0.0), threshold_(dropout_threshold(p_)) {
    key_.seed = state.seed;
    key_.step = static_cast<uint64_t>(state.step);
    key_.layer = static_cast<uint32_t>(attributes.integer("layer"));
    key_.site = static_cast<uint32_t>(attributes.integer("site"));
  }

  // The value after dropout of the element with this global index.
  double apply(double value, uint64_t index) const {
    if (p_ == 0) return value;
    return random_word(key_, index) < threshold_ ? 0.0 : value / (1 - p_);
  }

 private:
  RandomKey key_;
  double p_;
  uint32_t threshold_;
};

}  // namespace recollect::reference
