// Tells a kernel which elements a dropout op keeps. The random words are Philox words (engine/core/philox.h):
// a pure function of seed, step, layer, site and element. So backward computes them again instead of saving a
// mask. Seed and step change from run to run and are read on the device.
#pragma once

#include "engine/core/philox.h"
#include "engine/graph/attributes.h"
#include "engine/runtime/cuda/launch.h"
#include "engine/runtime/kernel.h"

namespace recollect::cuda {

// The dropout settings in an op's attributes.
struct DropoutSite {
  DropoutSite() = default;
  explicit DropoutSite(const Attributes& attributes)
      : layer(static_cast<uint32_t>(attributes.integer("layer"))),
        site(static_cast<uint32_t>(attributes.integer("site"))),
        threshold(dropout_threshold(attributes.real("p"))),
        scale(static_cast<float>(1.0 / (1.0 - attributes.real("p")))) {}

  uint32_t layer = 0, site = 0;
  uint32_t threshold = 0;  // 0: nothing is dropped
  float scale = 1.0f;      // multiplies the elements that are kept
};

// The DropoutSite together with the run's seed and step. In an evaluation nothing is dropped.
class DropoutMask {
 public:
  __device__ DropoutMask(const DropoutSite& site, const RunState* state)
      : threshold_(state->training ? site.threshold : 0), scale_(threshold_ > 0 ? site.scale : 1.0f) {
    key_.seed = state->seed;
    key_.step = static_cast<uint64_t>(state->step);
    key_.layer = site.layer;
    key_.site = site.site;
  }

  __device__ bool active() const { return threshold_ > 0; }
  __device__ float scale() const { return scale_; }
  __device__ float multiplier(bool kept) const { return kept ? scale_ : 0.0f; }
  // The four random words of one Philox block.
  __device__ std::array<uint32_t, 4> words(uint64_t block) const { return random_block(key_, block); }
  __device__ float multiplier_of(uint32_t word) const { return multiplier(word >= threshold_); }
  // Same as random_word(), but without an array that is indexed at run time, which would be put into local
  // memory.
  __device__ bool keeps(uint64_t element) const {
    return keeps_of_block(element / 64 * 16 + element % 16) >> (element % 64 / 16) & 1;
  }

  // Bits 0 to 3 tell which of the block's four elements, in order, are kept.
  __device__ uint32_t keeps_of_block(uint64_t block) const {
    const auto words = random_block(key_, block);
    uint32_t bits = 0;
#pragma unroll
    for (int w = 0; w < 4; ++w) bits |= static_cast<uint32_t>(words[w] >= threshold_) << w;
    return bits;
  }

 private:
  RandomKey key_;
  uint32_t threshold_;
  float scale_;
};

}  // namespace recollect::cuda
