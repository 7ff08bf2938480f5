// Elementwise kernels and their bias gradients: one pass over memory each.
#include <omp.h>

#include "engine/ops/cpu/column_sums.h"
#include "engine/ops/cpu/dropout.h"
#include "engine/ops/cpu/kernels.h"
#include "engine/ops/cpu/simd_math.h"

namespace recollect::cpu {

namespace {

constexpr int64_t kRun = 256;  // dropout multipliers held at a time

// The global index of the first element of a [T, h] value, for dropout.
uint64_t first_element(const Attributes& attributes, const RunState& state, int64_t width) {
  return static_cast<uint64_t>(state.first_sample * attributes.integer("sequence_length") +
                               attributes.integer("first_token")) *
         static_cast<uint64_t>(width);
}

class RowKernel : public Kernel {
 public:
  explicit RowKernel(const OpView& view)
      : attributes_(view.attributes()),
        threads_(omp_get_max_threads()),
        rows_(view.in(0).shape[0]),
        width_(view.in(0).shape.elements() / std::max<int64_t>(rows_, 1)) {}

 protected:
  Attributes attributes_;
  int threads_;
  int64_t rows_, width_;
};

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

template <typename A, typename Form>
class BiasGeluBackward : public RowKernel {
 public:
  explicit BiasGeluBackward(const OpView& view) : RowKernel(view), sums_(threads_, rows_, width_) {}
  std::size_t workspace_bytes() const override { return sums_.workspace_bytes(); }

  void run(const KernelArgs& args) override {
    const A *dy = args.in[0].as<A>(), *x = args.in[1].as<A>();
    const float* bias = args.in[2].as<float>();
    A* dx = args.out[0].as<A>();
    sums_.run(args.workspace, args.out[1].as<float>(), args.accumulate, [&](int64_t r, float* sum) {
      const int64_t at = r * width_;
      write_each(dx + at, width_, [&](int64_t c) {
        const float g = load(dy[at + c]) * Form::derivative(load(x[at + c]) + bias[c]);
        sum[c] += g;
        return g;
      });
    });
  }

 private:
  ColumnSums sums_;
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

template <typename A>
class ColumnSum : public RowKernel {
 public:
  explicit ColumnSum(const OpView& view) : RowKernel(view), sums_(threads_, rows_, width_) {}
  std::size_t workspace_bytes() const override { return sums_.workspace_bytes(); }

  void run(const KernelArgs& args) override {
    const A* dy = args.in[0].as<A>();
    sums_.run(args.workspace, args.out[0].as<float>(), args.accumulate, [&](int64_t r, float* sum) {
      const A* row = dy + r * width_;
#pragma omp simd
      for (int64_t c = 0; c < width_; ++c) sum[c] += load(row[c]);
    });
  }

 private:
  ColumnSums sums_;
};

template <typename A>
class Add : public RowKernel {
 public:
  using RowKernel::RowKernel;

  void run(const KernelArgs& args) override {
    const A *a = args.in[0].as<A>(), *b = args.in[1].as<A>();
    A* y = args.out[0].as<A>();
    parallel_ranges(threads_, rows_ * width_, [&](int64_t first, int64_t last, int) {
#pragma omp simd
      for (int64_t i = first; i < last; ++i) store(y + i, load(a[i]) + load(b[i]));
    });
  }
};

template <template <typename> class K>
KernelPointer make(const OpView& view, const char* kind) {
  return with_activation_type(view.in(0).dtype, kind,
                              [&]<typename A>() -> KernelPointer { return std::make_unique<K<A>>(view); });
}

template <template <typename, typename> class K>
KernelPointer make_gelu(const OpView& view, const char* kind) {
  return with_activation_type(view.in(0).dtype, kind, [&]<typename A>() -> KernelPointer {
    if (view.attributes().text("form") == "erf") return std::make_unique<K<A, GeluErf>>(view);
    return std::make_unique<K<A, GeluTanh>>(view);
  });
}

}  // namespace

KernelPointer make_dropout(const OpView& view) { return make<DropoutKernel>(view, "dropout"); }
KernelPointer make_bias_gelu(const OpView& view) { return make_gelu<BiasGelu>(view, "bias_gelu"); }
KernelPointer make_bias_gelu_backward(const OpView& view) {
  return make_gelu<BiasGeluBackward>(view, "bias_gelu_backward");
}
KernelPointer make_bias_dropout_add(const OpView& view) {
  return make<BiasDropoutAdd>(view, "bias_dropout_add");
}
KernelPointer make_bias_dropout_add_backward(const OpView& view) {
  return make<BiasDropoutAddBackward>(view, "bias_dropout_add_backward");
}
KernelPointer make_column_sum(const OpView& view) { return make<ColumnSum>(view, "column_sum"); }
KernelPointer make_add(const OpView& view) { return make<Add>(view, "add"); }

}  // namespace recollect::cpu
