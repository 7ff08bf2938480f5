// Dropout, alone and with the bias before it and the residual after it: one pass over memory each.
#include "engine/ops/cpu/column_sums.h"
#include "engine/ops/cpu/dropout_mask.h"
#include "engine/ops/cpu/row_kernel.h"

namespace recollect::cpu {

namespace {

constexpr int64_t kRun = 256;  // dropout multipliers held at a time

// The global index of the first element of a [T, h] value, for dropout.
uint64_t first_element(const Attributes& attributes, const RunState& state, int64_t width) {
  return static_cast<uint64_t>(state.first_sample * attributes.integer("sequence_length") +
                               attributes.integer("first_token")) *
         static_cast<uint64_t>(width);
}

template <typename A>
class DropoutKernel : public RowKernel {
 public:
  explicit DropoutKernel(const OpView& view) : RowKernel(view), dropout_(view.attributes()) {}

  void run(const KernelArgs& args) override {
    const A* x = args.in[0].as<A>();
    A* y = args.out[0].as<A>();
    const DropoutMask mask = dropout_.mask(*args.state);
    if (!mask.active()) return copy(x, y);
    const uint64_t origin = first_element(attributes_, *args.state, width_);
    parallel_grains(threads_, rows_ * width_, kRun, [&](int64_t first, int64_t last, int) {
      float keep[kRun];
      for (int64_t i = first; i < last; i += kRun) {
        const int64_t n = std::min(kRun, last - i);
        mask.multipliers(origin + i, n, keep);
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) store(y + i + j, load(x[i + j]) * keep[j]);
      }
    });
  }

 private:
  void copy(const A* x, A* y) const {
    if (x == y) return;
    parallel_ranges(threads_, rows_ * width_,
                    [&](int64_t first, int64_t last, int) { std::copy(x + first, x + last, y + first); });
  }

  Dropout dropout_;
};

template <typename A>
class BiasDropoutAdd : public RowKernel {
 public:
  explicit BiasDropoutAdd(const OpView& view) : RowKernel(view), dropout_(view.attributes()) {}

  void run(const KernelArgs& args) override {
    const A *x = args.in[0].as<A>(), *residual = args.in[2].as<A>();
    const float* bias = args.in[1].as<float>();
    A* y = args.out[0].as<A>();
    const DropoutMask mask = dropout_.mask(*args.state);
    const uint64_t origin = first_element(attributes_, *args.state, width_);
    parallel_ranges(threads_, rows_, [&](int64_t first, int64_t last, int) {
      float keep[kRun];
      std::fill_n(keep, kRun, 1.0f);
      for (int64_t r = first; r < last; ++r) {
        for (int64_t c = 0; c < width_; c += kRun) {
          const int64_t at = r * width_ + c, n = std::min(kRun, width_ - c);
          if (mask.active()) mask.multipliers(origin + at, n, keep);
#pragma omp simd
          for (int64_t j = 0; j < n; ++j)
            store(y + at + j, load(residual[at + j]) + (load(x[at + j]) + bias[c + j]) * keep[j]);
        }
      }
    });
  }

 private:
  Dropout dropout_;
};

template <typename A>
class BiasDropoutAddBackward : public RowKernel {
 public:
  explicit BiasDropoutAddBackward(const OpView& view)
      : RowKernel(view), dropout_(view.attributes()), sums_(threads_, rows_, width_) {}
  std::size_t workspace_bytes() const override { return sums_.workspace_bytes(); }

  void run(const KernelArgs& args) override {
    const A* dy = args.in[0].as<A>();
    A* dx = args.out[0].as<A>();
    const DropoutMask mask = dropout_.mask(*args.state);
    const uint64_t origin = first_element(attributes_, *args.state, width_);
    sums_.run(args.workspace, args.out[1].as<float>(), args.accumulate, [&](int64_t r, float* sum) {
      float keep[kRun];
      std::fill_n(keep, kRun, 1.0f);
      for (int64_t c = 0; c < width_; c += kRun) {
        const int64_t at = r * width_ + c, n = std::min(kRun, width_ - c);
        if (mask.active()) mask.multipliers(origin + at, n, keep);
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) {
          const float g = load(dy[at + j]) * keep[j];
          store(dx + at + j, g);
          sum[c + j] += g;
        }
      }
    });
  }

 private:
  Dropout dropout_;
  ColumnSums sums_;
};

}  // namespace

void register_dropout(KernelTable& table) {
  add_kernel<DropoutKernel>(table, "dropout");
  add_kernel<BiasDropoutAdd>(table, "bias_dropout_add");
  add_kernel<BiasDropoutAddBackward>(table, "bias_dropout_add_backward");
}

}  // namespace recollect::cpu
