// Activations whose codes may be made of them at once (float8.cpp).
#pragma once

#include "engine/ops/cpu/row_kernel.h"
#include "engine/ops/cpu/simd_math.h"

namespace recollect::cpu {

template <typename A, typename Form>
class BiasGelu : public RowKernel {
 public:
  using RowKernel::RowKernel;

  void run(const KernelArgs& args) override {
    const A* x = args.in[0].as<A>();
    const float* bias = args.in[1].as<float>();
    A* y = args.out[0].as<A>();
    parallel_ranges(threads_, rows_, [&](int64_t first, int64_t last, int) {
      for (int64_t r = first; r < last; ++r) {
        const A* from = x + r * width_;
        A* to = y + r * width_;
        write_each(to, width_, [&](int64_t c) { return Form::value(load(from[c]) + bias[c]); });
      }
    });
  }
};

// A row of x is gate | up.
template <typename A>
class Swiglu : public RowKernel {
 public:
  using RowKernel::RowKernel;

  void run(const KernelArgs& args) override {
    const A* x = args.in[0].as<A>();
    A* y = args.out[0].as<A>();
    const int64_t width = width_ / 2;
    parallel_ranges(threads_, rows_, [&](int64_t first, int64_t last, int) {
      for (int64_t r = first; r < last; ++r) {
        const A *gate = x + r * width_, *up = gate + width;
        write_each(y + r * width, width, [&](int64_t c) {
          const float g = load(gate[c]);
          return g * sigmoid(g) * load(up[c]);
        });
      }
    });
  }
};

template <typename A>
class SwigluBackward : public RowKernel {
 public:
  using RowKernel::RowKernel;

  void run(const KernelArgs& args) override {
    const A *dy = args.in[0].as<A>(), *x = args.in[1].as<A>();
    A* dx = args.out[0].as<A>();
    parallel_ranges(threads_, rows_, [&](int64_t first, int64_t last, int) {
      for (int64_t r = first; r < last; ++r) {
        const A *d = dy + r * width_, *gate = x + 2 * r * width_, *up = gate + width_;
        A* dgate = dx + 2 * r * width_;
        write_both(dgate, dgate + width_, width_, [&](int64_t c, float& of_gate, float& of_up) {
          const float g = load(gate[c]), s = sigmoid(g), dy_of_c = load(d[c]), up_of_c = load(up[c]);
          of_gate = dy_of_c * up_of_c * (s + g * s * (1.0f - s));
          of_up = dy_of_c * (g * s);
        });
      }
    });
  }
};

}  // namespace recollect::cpu
