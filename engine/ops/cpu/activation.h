// Activation kernels that float8.cpp also uses, to make 8-bit codes of their output in the same op.
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

// y = value(x), element by element.
template <typename A, typename Form>
class Map : public RowKernel {
 public:
  using RowKernel::RowKernel;

  void run(const KernelArgs& args) override {
    const A* x = args.in[0].as<A>();
    A* y = args.out[0].as<A>();
    parallel_ranges(threads_, rows_, [&](int64_t first, int64_t last, int) {
      for (int64_t r = first; r < last; ++r) {
        const A* from = x + r * width_;
        write_each(y + r * width_, width_, [&](int64_t c) { return Form::value(load(from[c])); });
      }
    });
  }
};

// dx = dy * derivative(x), element by element. For tanh the second input is y instead of x.
template <typename A, typename Form>
class MapBackward : public RowKernel {
 public:
  using RowKernel::RowKernel;

  void run(const KernelArgs& args) override {
    const A *dy = args.in[0].as<A>(), *x = args.in[1].as<A>();
    A* dx = args.out[0].as<A>();
    parallel_ranges(threads_, rows_, [&](int64_t first, int64_t last, int) {
      for (int64_t r = first; r < last; ++r) {
        const A *d = dy + r * width_, *from = x + r * width_;
        write_each(dx + r * width_, width_,
                   [&](int64_t c) { return load(d[c]) * Form::derivative(load(from[c])); });
      }
    });
  }
};

// GELU in the tanh form, without a bias.
template <typename A>
using Gelu = Map<A, GeluTanh>;
template <typename A>
using GeluBackward = MapBackward<A, GeluTanh>;

// Rows of gate | up are processed in runs of columns. The processor's own prefetching restarts at each half
// of a row, so the runs to come are prefetched here.
constexpr int64_t kGatedRun = 256;

template <typename A>
void fetch_later_run(const A* gate, const A* up) {
  constexpr int64_t kLine = 64 / sizeof(A), kAhead = 2 * kGatedRun;
  for (int64_t c = 0; c < kGatedRun; c += kLine) {
    __builtin_prefetch(gate + kAhead + c);
    __builtin_prefetch(up + kAhead + c);
  }
}

// The gate's activation and its derivative.
struct Through {
  float value, derivative;
};
struct OfSilu {
  static float value(float gate) { return gate * sigmoid(gate); }
  static Through both(float gate) {
    const float s = sigmoid(gate);
    return {gate * s, s + gate * s * (1.0f - s)};
  }
};
template <typename Form>
struct OfGelu {
  static float value(float gate) { return Form::value(gate); }
  static Through both(float gate) { return {Form::value(gate), Form::derivative(gate)}; }
};

// y = activation(gate) * up, where a row of x is gate | up. x is [rows, 2 * width], y is [rows, width].
template <typename A, typename Gate>
class Gated : public RowKernel {
 public:
  using RowKernel::RowKernel;

  void run(const KernelArgs& args) override {
    const A* x = args.in[0].as<A>();
    A* y = args.out[0].as<A>();
    const int64_t width = width_ / 2;
    parallel_ranges(threads_, rows_, [&](int64_t first, int64_t last, int) {
      for (int64_t r = first; r < last; ++r) {
        for (int64_t begin = 0; begin < width; begin += kGatedRun) {
          const A *gate = x + r * width_ + begin, *up = gate + width;
          fetch_later_run(gate, up);
          write_each(y + r * width + begin, std::min(kGatedRun, width - begin),
                     [&](int64_t c) { return Gate::value(load(gate[c])) * load(up[c]); });
        }
      }
    });
  }
};

// dgate = dy * up * activation'(gate), dup = dy * activation(gate).
template <typename A, typename Gate>
class GatedBackward : public RowKernel {
 public:
  using RowKernel::RowKernel;

  void run(const KernelArgs& args) override {
    const A *dy = args.in[0].as<A>(), *x = args.in[1].as<A>();
    A* dx = args.out[0].as<A>();
    parallel_ranges(threads_, rows_, [&](int64_t first, int64_t last, int) {
      for (int64_t r = first; r < last; ++r) {
        for (int64_t begin = 0; begin < width_; begin += kGatedRun) {
          const A *d = dy + r * width_ + begin, *gate = x + 2 * r * width_ + begin, *up = gate + width_;
          A* dgate = dx + 2 * r * width_ + begin;
          fetch_later_run(gate, up);
          write_both(dgate, dgate + width_, std::min(kGatedRun, width_ - begin),
                     [&](int64_t c, float& of_gate, float& of_up) {
                       const Through through = Gate::both(load(gate[c]));
                       const float of_y = load(d[c]), u = load(up[c]);
                       of_gate = of_y * u * through.derivative;
                       of_up = of_y * through.value;
                     });
        }
      }
    });
  }
};

template <typename A>
using Swiglu = Gated<A, OfSilu>;
template <typename A>
using SwigluBackward = GatedBackward<A, OfSilu>;
template <typename A, typename Form>
using Geglu = Gated<A, OfGelu<Form>>;
template <typename A, typename Form>
using GegluBackward = GatedBackward<A, OfGelu<Form>>;

}  // namespace recollect::cpu
