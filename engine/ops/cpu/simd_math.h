// Elementary functions as straight-line float code, which the compiler vectorises inside `omp simd` loops.
// NaN gives NaN.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "engine/ops/cpu/element.h"
#include "engine/ops/cpu/lanes.h"

namespace recollect::cpu {

// e^x to about 1 ulp. 0 below -87.7 (results would be denormal); at least 2.4e38 above 88.3, never infinite.
inline float fast_exp(float x) {
  constexpr float kLowest = -88.0f, kHighest = 88.376f;  // at the lowest, `power` below is zero
  float c = kHighest < x ? kHighest : x;
  c = kLowest > c ? kLowest : c;
  // Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits of the sum.
  constexpr float kRounder = 12582912.0f;
  const float shifted = c * 1.44269504088896341f + kRounder;
  const float n = shifted - kRounder;
  const float r = (c - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float y = p * r * r + r + 1.0f;
  const float power = std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) + 127u) << 23);
  return y * power;
}

// Returns the maximum of n numbers, ignoring NaN. It uses explicit vectors, because a compiler may not
// vectorise a maximum of floats that can be NaN.
template <typename A>
float greatest(const A* x, int64_t n) {
  constexpr int kUnroll = 4, kStep = kLanes * kUnroll;
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  const auto update = [x](Floats& best, int64_t at) {
    Floats v;
    for (int l = 0; l < kLanes; ++l) v[l] = load(x[at + l]);
    best = v > best ? v : best;
  };
  Floats best[kUnroll];
  for (Floats& b : best) b = Floats{} + kLeast;
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep)
    for (int u = 0; u < kUnroll; ++u) update(best[u], i + u * kLanes);
  for (; i + kLanes <= n; i += kLanes) update(best[0], i);
  float max = kLeast;
  if (i < n && n >= kLanes) {
    update(best[0], n - kLanes);  // reads some numbers twice
    i = n;
  }
  for (; i < n; ++i) max = load(x[i]) > max ? load(x[i]) : max;
  for (int u = 0; u < kUnroll; ++u)
    for (int l = 0; l < kLanes; ++l) max = best[u][l] > max ? best[u][l] : max;
  return max;
}

inline float sigmoid(float x) { return 1.0f / (1.0f + fast_exp(-x)); }

// Accurate to a few ulp everywhere. The quotient loses accuracy near zero, by cancellation; a polynomial is
// used there.
inline float fast_tanh(float x) {
  const float e = fast_exp(x < 0.0f ? 2.0f * x : -2.0f * x), large = (1.0f - e) / (1.0f + e), square = x * x;
  float p = 2.1869488536e-2f;
  p = p * square - 5.3968253968e-2f;
  p = p * square + 1.3333333333e-1f;
  p = p * square - 3.3333333333e-1f;
  const float small = x + x * square * p;
  const float signed_large = x < 0.0f ? -large : large;
  return square < 0.09f ? small : signed_large;
}

// erfc(z) for z >= 0, relative error about 3e-7 for small z (Chebyshev fit of Numerical Recipes).
inline float erfc_positive(float z) {
  const float t = 1.0f / (1.0f + 0.5f * z);
  float p = 0.17087277f;
  p = p * t - 0.82215223f;
  p = p * t + 1.48851587f;
  p = p * t - 1.13520398f;
  p = p * t + 0.27886807f;
  p = p * t - 0.18628806f;
  p = p * t + 0.09678418f;
  p = p * t + 0.37409196f;
  p = p * t + 1.00002368f;
  p = p * t - 1.26551223f;
  return t * fast_exp(p - z * z);
}

// The normal distribution function.
inline float normal_cdf(float x) {
  constexpr float kInvSqrt2 = 0.70710678118654752f;
  const float z = x < 0.0f ? -x * kInvSqrt2 : x * kInvSqrt2;
  const float tail = 0.5f * erfc_positive(z);
  return x < 0.0f ? tail : 1.0f - tail;
}

// GELU in its two forms, and their derivatives. The tanh form uses a sigmoid, because 0.5 * (1 + tanh(u)) =
// sigmoid(2u), which keeps its relative accuracy for negative x.
struct GeluTanh {
  static constexpr float kTwoSqrt2OverPi = 1.5957691216057308f;
  static constexpr float kCubic = 0.044715f;
  static float value(float x) { return x * sigmoid(kTwoSqrt2OverPi * (x + kCubic * x * x * x)); }
  static float derivative(float x) {
    const float s = sigmoid(kTwoSqrt2OverPi * (x + kCubic * x * x * x));
    return s + x * s * (1.0f - s) * kTwoSqrt2OverPi * (1.0f + 3.0f * kCubic * x * x);
  }
};

struct GeluErf {
  static constexpr float kInvSqrt2Pi = 0.39894228040143268f;
  static float value(float x) { return x * normal_cdf(x); }
  static float derivative(float x) { return normal_cdf(x) + x * kInvSqrt2Pi * fast_exp(-0.5f * x * x); }
};

}  // namespace recollect::cpu
