// Layer normalisation over the last dim: each row is read from memory once and stays in cache for its passes.
#include <omp.h>

#include <cmath>

#include "engine/ops/cpu/column_sums.h"
#include "engine/ops/cpu/kernels.h"

namespace recollect::cpu {

namespace {

template <typename A>
class LayerNorm : public Kernel {
 public:
  explicit LayerNorm(const OpView& view)
      : threads_(omp_get_max_threads()),
        rows_(view.in(0).shape[0]),
        width_(view.in(0).shape[1]),
        epsilon_(static_cast<float>(view.attributes().real("epsilon"))) {}

  void run(const KernelArgs& args) override {
    const A* x = args.in[0].as<A>();
    const float *weight = args.in[1].as<float>(), *bias = args.in[2].as<float>();
    A* y = args.out[0].as<A>();
    float *mean = args.out[1].as<float>(), *rstd = args.out[2].as<float>();
    parallel_ranges(threads_, rows_, [&](int64_t first, int64_t last, int) {
      for (int64_t r = first; r < last; ++r)
        row(x + r * width_, weight, bias, y + r * width_, mean + r, rstd + r);
    });
  }

 private:
  void row(const A* x, const float* weight, const float* bias, A* y, float* mean, float* rstd) const {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < width_; ++c) sum += load(x[c]);
    const float m = sum / static_cast<float>(width_);
    float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
    for (int64_t c = 0; c < width_; ++c) {
      const float d = load(x[c]) - m;
      squares += d * d;
    }
    const float r = 1.0f / std::sqrt(squares / static_cast<float>(width_) + epsilon_);
#pragma omp simd
    for (int64_t c = 0; c < width_; ++c) store(y + c, (load(x[c]) - m) * r * weight[c] + bias[c]);
    *mean = m;
    *rstd = r;
  }

  int threads_;
  int64_t rows_, width_;
  float epsilon_;
};

template <typename A>
class LayerNormBackward : public Kernel {
 public:
  explicit LayerNormBackward(const OpView& view)
      : width_(view.in(0).shape[1]), sums_(omp_get_max_threads(), view.in(0).shape[0], 2 * width_) {}

  // The sums of both parameters side by side, and their result before it is taken apart.
  std::size_t workspace_bytes() const override {
    return sums_.workspace_bytes() + (sizeof(float) * 2 * width_ + 63) / 64 * 64;
  }

  void run(const KernelArgs& args) override {
    const A *dy = args.in[0].as<A>(), *x = args.in[1].as<A>();
    const float *weight = args.in[2].as<float>(), *mean = args.in[3].as<float>(),
                *rstd = args.in[4].as<float>();
    const A* add = args.in.size() > 5 && args.in[5].defined() ? args.in[5].as<A>() : nullptr;
    A* dx = args.out[0].as<A>();
    float* both = reinterpret_cast<float*>(args.workspace + sums_.workspace_bytes());
    sums_.run(args.workspace, both, false, [&](int64_t r, float* sum) {
      const int64_t at = r * width_;
      row(dy + at, x + at, weight, mean[r], rstd[r], add ? add + at : nullptr, dx + at, sum, sum + width_);
    });
    deliver(both, args.out[1].as<float>(), args.accumulate);
    deliver(both + width_, args.out[2].as<float>(), args.accumulate);
  }

 private:
  void row(const A* dy, const A* x, const float* weight, float mean, float rstd, const A* add, A* dx,
           float* dweight, float* dbias) const {
    float sum_g = 0.0f, sum_gx = 0.0f;
#pragma omp simd reduction(+ : sum_g, sum_gx)
    for (int64_t c = 0; c < width_; ++c) {
      const float d = load(dy[c]), normal = (load(x[c]) - mean) * rstd, g = d * weight[c];
      sum_g += g;
      sum_gx += g * normal;
      dweight[c] += d * normal;
      dbias[c] += d;
    }
    const float mean_g = sum_g / static_cast<float>(width_), mean_gx = sum_gx / static_cast<float>(width_);
    const auto gradient = [&](int64_t c) {
      const float normal = (load(x[c]) - mean) * rstd;
      return rstd * (load(dy[c]) * weight[c] - mean_g - normal * mean_gx);
    };
    if (add) {
#pragma omp simd
      for (int64_t c = 0; c < width_; ++c) store(dx + c, gradient(c) + load(add[c]));
    } else {
#pragma omp simd
      for (int64_t c = 0; c < width_; ++c) store(dx + c, gradient(c));
    }
  }

  void deliver(const float* sum, float* out, bool accumulate) const {
    for (int64_t c = 0; c < width_; ++c) out[c] = accumulate ? out[c] + sum[c] : sum[c];
  }

  int64_t width_;
  ColumnSums sums_;
};

}  // namespace

void register_layer_norm(KernelTable& table) {
  add_kernel<LayerNorm>(table, "layer_norm");
  add_kernel<LayerNormBackward>(table, "layer_norm_backward");
}

}  // namespace recollect::cpu
