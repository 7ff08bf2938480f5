// One row times a matrix whose rows are a line of numbers each: as fast as the matrix comes from memory. Every
// sum is made by one thread in one order of its own, whatever the number of threads.
#pragma once

#include <array>
#include <cstdint>

#include "engine/ops/cpu/element.h"
#include "engine/ops/cpu/lanes.h"

namespace recollect::cpu {

class RowProduct {
 public:
  RowProduct(int threads, int64_t columns, int64_t depth)
      : threads_(columns * depth < kSmall ? 1 : threads), columns_(columns), depth_(depth) {}

  // y = x w^T + bias, where w is [columns, depth] and `bias` may be null.
  template <typename A, typename Y>
  void run(const A* x, const A* w, const float* bias, Y* y) const {
    parallel_grains(threads_, columns_, kGrain, [&](int64_t first, int64_t last, int) {
      for (int64_t j = first; j < last; ++j) store(y + j, dot(x, w + j * depth_) + (bias ? bias[j] : 0.0f));
    });
  }

 private:
  static constexpr int64_t kSmall = 1 << 17;  // numbers that no second thread is woken for
  static constexpr int64_t kGrain = 16;       // rows of w
  static constexpr int64_t kChains = kLanes == 16 ? 4 : 8, kStep = kLanes * kChains;
  static constexpr int64_t kAhead = 2048;  // bytes that are fetched before they are wanted

  template <typename A>
  static void fetch(const A* line) {
    for (int64_t b = 0; b < kStep * static_cast<int64_t>(sizeof(A)); b += 64)
      __builtin_prefetch(reinterpret_cast<const char*>(line) + kAhead + b);
  }

  // What whole steps add up, in lanes of their own; returns how far they reach.
  static int64_t add_steps(const float* x, const float* w, int64_t depth, Floats (&sums)[kChains]) {
    int64_t i = 0;
    for (; i + kStep <= depth; i += kStep) {
      fetch(w + i);
      for (int64_t chain = 0; chain < kChains; ++chain) {
        const int64_t at = i + chain * kLanes;
        sums[chain] += *reinterpret_cast<const Floats*>(x + at) * *reinterpret_cast<const Floats*>(w + at);
      }
    }
    return i;
  }

#ifdef __AVX512BF16__
  static int64_t add_steps(const bf16* x, const bf16* w, int64_t depth, Floats (&sums)[kChains]) {
    constexpr int64_t kPairs = 2 * kLanes;
    const auto line = [](const bf16* from) { return reinterpret_cast<__m512bh>(_mm512_loadu_si512(from)); };
    int64_t i = 0;
    for (; i + kChains * kPairs <= depth; i += kChains * kPairs) {
      fetch(w + i);
      fetch(w + i + kStep);
      for (int64_t chain = 0; chain < kChains; ++chain) {
        const int64_t at = i + chain * kPairs;
        sums[chain] = _mm512_dpbf16_ps(sums[chain], line(x + at), line(w + at));
      }
    }
    for (; i + kPairs <= depth; i += kPairs) sums[0] = _mm512_dpbf16_ps(sums[0], line(x + i), line(w + i));
    return i;
  }
#else
  static void widen(const bf16* from, Floats& to) {
    using Halves = uint16_t __attribute__((vector_size(kLanes * sizeof(uint16_t)), aligned(2), may_alias));
    using Words = uint32_t __attribute__((vector_size(kLanes * sizeof(uint32_t))));
    const Words words = __builtin_convertvector(*reinterpret_cast<const Halves*>(from), Words) << 16;
    to = reinterpret_cast<Floats>(words);
  }

  static int64_t add_steps(const bf16* x, const bf16* w, int64_t depth, Floats (&sums)[kChains]) {
    int64_t i = 0;
    for (; i + kStep <= depth; i += kStep) {
      fetch(w + i);
      for (int64_t chain = 0; chain < kChains; ++chain) {
        Floats a, b;
        widen(x + i + chain * kLanes, a);
        widen(w + i + chain * kLanes, b);
        sums[chain] += a * b;
      }
    }
    return i;
  }
#endif

  template <typename A>
  float dot(const A* x, const A* w) const {
    Floats sums[kChains] = {};
    float rest = 0.0f;
    for (int64_t i = add_steps(x, w, depth_, sums); i < depth_; ++i) rest += load(x[i]) * load(w[i]);
    for (int64_t step = 1; step < kChains; step *= 2)
      for (int64_t chain = 0; chain < kChains; chain += 2 * step) sums[chain] += sums[chain + step];
    std::array<float, kLanes> lanes;
    for (int l = 0; l < kLanes; ++l) lanes[static_cast<std::size_t>(l)] = sums[0][l];
    for (std::size_t half = kLanes / 2; half > 0; half /= 2)
      for (std::size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
    return lanes[0] + rest;
  }

  int threads_;
  int64_t columns_, depth_;
};

}  // namespace recollect::cpu
