// Stochastic rounding to bf16: a number is rounded up with a probability equal to its distance from the lower
// neighbour, so that stored values are right on average. So a parameter can be updated without a master copy
// of more bits. The random word comes from engine/core/philox.h and is a function of the run's seed and step,
// the parameter, and the element's index in the whole parameter. So it depends neither on the layout of ranks
// nor on threads.
#pragma once

#include <bit>
#include <cstdint>
#include <sstream>

#include "engine/core/dtype.h"
#include "engine/core/error.h"
#include "engine/core/host_device.h"
#include "engine/core/philox.h"
#include "engine/graph/attributes.h"

namespace recollect {

inline constexpr uint32_t kRoundingLayer = 0x800000;  // RandomKey::layer of the first parameter

RECOLLECT_HOST_DEVICE inline bf16 rounded_by_chance(float value, uint32_t word) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  bf16 rounded;
  rounded.bits = (bits & 0x7fffffffu) > 0x7f800000u ? static_cast<uint16_t>((bits >> 16) | 0x40u)
                                                    : static_cast<uint16_t>((bits + (word >> 16)) >> 16);
  return rounded;
}

// Maps the elements of an op's rows to their indices in the whole parameter.
struct RoundedParameter {
  static constexpr int kMostRuns = 8;

  uint32_t layer = kRoundingLayer;
  int64_t columns = 1, first_column = 0;  // of the whole parameter; of the op's rows
  int runs = 0;                           // number of runs: rows that are consecutive in the whole parameter
  int64_t first[kMostRuns] = {}, whole[kMostRuns] = {};

  RoundedParameter() = default;
  // "rounded_as" is the parameter's number. "rounded_runs" lists, for each run, its first row here and its
  // first row in the whole parameter.
  explicit RoundedParameter(const Attributes& attributes)
      : layer(kRoundingLayer + static_cast<uint32_t>(attributes.integer("rounded_as"))),
        columns(attributes.integer("rounded_columns")),
        first_column(attributes.integer("rounded_first_column")) {
    std::istringstream text(attributes.text("rounded_runs"));
    for (int64_t here = 0, there = 0; text >> here >> there; ++runs) {
      require(runs < kMostRuns, "the rows of a parameter lie in too many places");
      first[runs] = here;
      whole[runs] = there;
    }
    require(runs > 0, "an op rounds by chance, and no row of it has a place");
  }

  static bool is_asked_for(const Attributes& attributes) { return attributes.has("rounded_as"); }

  RECOLLECT_HOST_DEVICE RandomKey key(uint64_t seed, int64_t step) const {
    RandomKey key;
    key.seed = seed;
    key.step = static_cast<uint64_t>(step);
    key.layer = layer;
    key.site = 0;
    return key;
  }
  RECOLLECT_HOST_DEVICE uint64_t element(int64_t row, int64_t column) const {
    int run = 0;
    while (run + 1 < runs && first[run + 1] <= row) ++run;
    return static_cast<uint64_t>((whole[run] + row - first[run]) * columns + first_column + column);
  }
};

}  // namespace recollect
