// Reads and writes a piece of a parameter's row as floats: copied if the parameter is f32, stochastically
// rounded if it is bf16 (engine/ops/stochastic_rounding.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "engine/ops/cpu/dropout_mask.h"
#include "engine/ops/cpu/element.h"
#include "engine/ops/stochastic_rounding.h"
#include "engine/runtime/kernel.h"

namespace recollect::cpu {

class BlockRounding {
 public:
  static constexpr int64_t kMost = 256;  // elements of a piece

  // For an op whose first output is the parameter.
  explicit BlockRounding(const OpView& view) {
    if (view.out(0).dtype == DType::kBF16) place_.emplace(view.attributes());
  }

  RoundKeys keys(const RunState& state) const {
    return RoundKeys(place_ ? place_->key(state.seed, state.step) : RandomKey{});
  }
  // Returns the length of a piece at this row and column that ends where a group of random words ends. The
  // parameter is bf16.
  int64_t piece(int64_t row, int64_t column) const {
    return kMost - static_cast<int64_t>(place_->element(row, column) % kRandomGroup);
  }

  void read(const Tensor& parameter, int64_t at, int64_t count, float* to) const {
    if (!place_) {
      std::copy_n(parameter.as<float>() + at, count, to);
      return;
    }
    const bf16* const from = parameter.as<bf16>() + at;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) to[i] = load(from[i]);
  }

  // Writes a piece to element `at` of the op's output. It begins at this row and column.
  void write(const float* from, const RoundKeys& keys, int64_t row, int64_t column, int64_t count,
             const Tensor& parameter, int64_t at) const {
    if (!place_) {
      std::copy_n(from, count, parameter.as<float>() + at);
      return;
    }
    alignas(64) uint32_t words[kMost];
    random_words(keys, place_->element(row, column), count, words);
    bf16* const to = parameter.as<bf16>() + at;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) to[i] = rounded_by_chance(from[i], words[i]);
  }

 private:
  std::optional<RoundedParameter> place_;
};

}  // namespace recollect::cpu
