// Random words of consecutive elements, as in engine/core/philox.h, and the dropout multipliers made of them:
// 0 for a dropped element, 1 / (1 - p) for a kept one. An aligned group of 64 elements costs sixteen Philox
// blocks, which are computed in parallel.
#pragma once

#include <cstdint>

#include "engine/core/philox.h"
#include "engine/graph/attributes.h"
#include "engine/runtime/kernel.h"

namespace recollect::cpu {

// A key in the form that each round needs. Only the lower halves of these numbers are words of Philox; the
// upper halves are ignored.
struct RoundKeys {
  static constexpr int kRounds = 10;

  explicit RoundKeys(const RandomKey& key) : c2((key.layer << 8) | (key.site & 0xffu)), c3(key.step) {
    for (uint64_t round = 0; round < kRounds; ++round) {
      k0[round] = key.seed + round * 0x9E3779B9u;
      k1[round] = (key.seed >> 32) + round * 0xBB67AE85u;
    }
  }

  uint64_t c2, c3;  // words of every block's counter
  uint64_t k0[kRounds], k1[kRounds];
};

inline constexpr int64_t kRandomGroup = 64;  // elements whose words are made together, in aligned groups

// Computes the words of elements first ... first + count - 1.
void random_words(const RoundKeys& keys, uint64_t first, int64_t count, uint32_t* out);

// One run's dropout at one site.
class DropoutMask {
 public:
  DropoutMask(const RandomKey& key, double p)
      : keys_(key), threshold_(dropout_threshold(p)), scale_(static_cast<float>(1.0 / (1.0 - p))) {}

  bool active() const { return threshold_ > 0; }  // otherwise every multiplier is 1
  // out[i] is the multiplier of element first + i, for i < count.
  void multipliers(uint64_t first, int64_t count, float* out) const;

 private:
  void group(uint64_t index, float* out) const;  // the 64 elements from 64 * index

  RoundKeys keys_;
  uint32_t threshold_;
  float scale_;
};

// The dropout settings of an op. With a run's state they give a mask, which drops nothing in an evaluation.
class Dropout {
 public:
  explicit Dropout(const Attributes& attributes)
      : p_(attributes.real("p")), layer_(attributes.integer("layer")), site_(attributes.integer("site")) {}

  DropoutMask mask(const RunState& state) const {
    return DropoutMask({.seed = state.seed,
                        .step = static_cast<uint64_t>(state.step),
                        .layer = static_cast<uint32_t>(layer_),
                        .site = static_cast<uint32_t>(site_)},
                       state.training ? p_ : 0.0);
  }

 private:
  double p_;
  int64_t layer_, site_;
};

}  // namespace recollect::cpu
