// The random numbers that parameters begin with. Each is a pure function of (seed, place of the parameter,
// index of the element); each Philox block gives four. This file defines them, in double. Code that makes
// many floats at once (engine/ops/cpu/draw_normals.cpp) gives the same bits as these numbers rounded to
// float.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "engine/core/philox.h"

namespace recollect {

inline constexpr uint32_t kInitLayer = 0xfffffd;  // RandomKey::layer of weight initialisation

// Identifies a parameter.
struct DrawKey {
  uint64_t seed = 0, place = 0;
  std::array<uint32_t, 4> words(uint64_t block) const {
    return philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), kInitLayer << 8,
                       static_cast<uint32_t>(place)},
                      static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
  }
};

// Returns the standard normals of elements 4 * block ... 4 * block + 3: the Box-Muller transform of the four
// words of one block.
inline std::array<double, 4> normals(const DrawKey& key, uint64_t block) {
  const std::array<uint32_t, 4> words = key.words(block);
  std::array<double, 4> out{};
  for (std::size_t i = 0; i < 4; i += 2) {
    const double radius = std::sqrt(-2.0 * std::log((words[i] + 0.5) * 0x1p-32));
    const double angle = 2.0 * std::numbers::pi * ((words[i + 1] + 0.5) * 0x1p-32);
    out[i] = radius * std::cos(angle);
    out[i + 1] = radius * std::sin(angle);
  }
  return out;
}

// The same for numbers that are uniform in (-1, 1).
inline std::array<double, 4> uniforms(const DrawKey& key, uint64_t block) {
  const std::array<uint32_t, 4> words = key.words(block);
  std::array<double, 4> out{};
  for (std::size_t i = 0; i < 4; ++i) out[i] = 2 * ((words[i] + 0.5) * 0x1p-32) - 1;
  return out;
}

}  // namespace recollect
