// Normalisation over the last dim: each row is read from memory once and stays in cache for its passes. Layer
// normalisation is centered; that by the root mean square is not: its mean is zero, and it has no bias.
#include <omp.h>

#include <cmath>

#include "engine/ops/cpu/column_sums.h"
#include "engine/ops/cpu/kernels.h"
#include "engine/ops/norm.h"

namespace recollect::cpu {

namespace {

template <typename A, bool kCentered>
class Norm : public Kernel {
 public:
  explicit Norm(const OpView& view)
      : threads_(omp_get_max_threads()),
        rows_(view.in(0).shape[0]),
        width_(view.in(0).shape[1]),
        epsilon_(static_cast<float>(view.attributes().real("epsilon"))),
        offset_(static_cast<float>(weight_offset(view.attributes()))) {}

  void run(const KernelArgs& args) override {
    const A* x = args.in[0].as<A>();
    const float* weight = args.in[1].as<float>();
    const float* bias = kCentered && args.in.size() > 2 ? args.in[2].as<float>() : nullptr;
    A* y = args.out[0].as<A>();
    float* mean = kCentered ? args.out[1].as<float>() : nullptr;
    float* rstd = args.out[kCentered ? 2 : 1].as<float>();
    parallel_ranges(threads_, rows_, [&](int64_t first, int64_t last, int) {
      for (int64_t r = first; r < last; ++r) {
        const float m = row(x + r * width_, weight, bias, y + r * width_, rstd + r);
        if constexpr (kCentered) mean[r] = m;
      }
    });
  }

 protected:
  // Returns the mean. `bias` is null where there is none.
  float row(const A* x, const float* weight, const float* bias, A* y, float* rstd) const {
    float m = 0.0f;
    if constexpr (kCentered) {
      float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
      for (int64_t c = 0; c < width_; ++c) sum += load(x[c]);
      m = sum / static_cast<float>(width_);
    }
    float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
    for (int64_t c = 0; c < width_; ++c) {
      const float d = load(x[c]) - m;
      squares += d * d;
    }
    const float r = 1.0f / std::sqrt(squares / static_cast<float>(width_) + epsilon_);
    if constexpr (!kCentered)
      write_each(y, width_, [&](int64_t c) { return load(x[c]) * r * (offset_ + weight[c]); });
    else if (bias)
      write_each(y, width_, [&](int64_t c) { return (load(x[c]) - m) * r * weight[c] + bias[c]; });
    else
      write_each(y, width_, [&](int64_t c) { return (load(x[c]) - m) * r * weight[c]; });
    *rstd = r;
    return m;
  }

  int threads_;
  int64_t rows_, width_;
  float epsilon_, offset_;
};

template <typename A>
class ResidualNorm : public Norm<A, true> {
 public:
  using Norm<A, true>::Norm;

  void run(const KernelArgs& args) override {
    const A *x = args.in[0].as<A>(), *residual = args.in[2].as<A>();
    const float *bias = args.in[1].as<float>(), *weight = args.in[3].as<float>(),
                *shift = args.in.size() > 4 ? args.in[4].as<float>() : nullptr;
    A *y = args.out[0].as<A>(), *norm = args.out[1].as<A>();
    float *mean = args.out[2].as<float>(), *rstd = args.out[3].as<float>();
    const int64_t width = this->width_;
    parallel_ranges(this->threads_, this->rows_, [&](int64_t first, int64_t last, int) {
      for (int64_t r = first; r < last; ++r) {
        const int64_t at = r * width;
        write_each(y + at, width,
                   [&](int64_t c) { return load(residual[at + c]) + (load(x[at + c]) + bias[c]); });
        mean[r] = this->row(y + at, weight, shift, norm + at, rstd + r);
      }
    });
  }
};

template <typename A, bool kCentered>
class NormBackward : public Kernel {
 public:
  explicit NormBackward(const OpView& view)
      : width_(view.in(0).shape[1]),
        offset_(static_cast<float>(weight_offset(view.attributes()))),
        sums_(omp_get_max_threads(), view.in(0).shape[0], kParameters * width_) {}

  // The sums of the parameters side by side, and their result before it is taken apart.
  std::size_t workspace_bytes() const override {
    return sums_.workspace_bytes() + (sizeof(float) * kParameters * width_ + 63) / 64 * 64;
  }

  void run(const KernelArgs& args) override {
    const A *dy = args.in[0].as<A>(), *x = args.in[1].as<A>();
    const float* weight = args.in[2].as<float>();
    const float* mean = kCentered ? args.in[3].as<float>() : nullptr;
    const float* rstd = args.in[kAdd - 1].as<float>();
    const A* add = args.in.size() > kAdd && args.in[kAdd].defined() ? args.in[kAdd].as<A>() : nullptr;
    A* dx = args.out[0].as<A>();
    float* sums = reinterpret_cast<float*>(args.workspace + sums_.workspace_bytes());
    sums_.run(args.workspace, sums, false, [&](int64_t r, float* sum) {
      const int64_t at = r * width_;
      row(dy + at, x + at, weight, kCentered ? mean[r] : 0.0f, rstd[r], add ? add + at : nullptr, dx + at,
          sum, sum + width_);
    });
    for (std::size_t p = 1; p < args.out.size(); ++p)
      deliver(sums + (p - 1) * width_, args.out[p].as<float>(), args.accumulate);
  }

 private:
  static constexpr int kParameters = kCentered ? 2 : 1;
  static constexpr std::size_t kAdd = kCentered ? 5 : 4;  // input that is added, behind the statistics

  void row(const A* dy, const A* x, const float* weight, float mean, float rstd, const A* add, A* dx,
           float* dweight, float* dbias) const {
    float sum_g = 0.0f, sum_gx = 0.0f;
#pragma omp simd reduction(+ : sum_g, sum_gx)
    for (int64_t c = 0; c < width_; ++c) {
      const float d = load(dy[c]), normal = (load(x[c]) - mean) * rstd, g = d * scale(weight[c]);
      sum_gx += g * normal;
      dweight[c] += d * normal;
      if constexpr (kCentered) {
        sum_g += g;
        dbias[c] += d;
      }
    }
    const float mean_g = sum_g / static_cast<float>(width_), mean_gx = sum_gx / static_cast<float>(width_);
    const auto gradient = [&](int64_t c) {
      const float normal = (load(x[c]) - mean) * rstd;
      return rstd * (load(dy[c]) * scale(weight[c]) - mean_g - normal * mean_gx);
    };
    if (add)
      write_each(dx, width_, [&](int64_t c) { return gradient(c) + load(add[c]); });
    else
      write_each(dx, width_, gradient);
  }

  void deliver(const float* sum, float* out, bool accumulate) const {
    for (int64_t c = 0; c < width_; ++c) out[c] = accumulate ? out[c] + sum[c] : sum[c];
  }

  float scale(float weight) const { return kCentered ? weight : offset_ + weight; }

  int64_t width_;
  float offset_;
  ColumnSums sums_;
};

template <typename A>
using LayerNorm = Norm<A, true>;
template <typename A>
using LayerNormBackward = NormBackward<A, true>;
template <typename A>
using RmsNorm = Norm<A, false>;
template <typename A>
using RmsNormBackward = NormBackward<A, false>;

}  // namespace

void register_layer_norm(KernelTable& table) {
  add_kernel<LayerNorm>(table, "layer_norm");
  add_kernel<LayerNormBackward>(table, "layer_norm_backward");
  add_kernel<ResidualNorm>(table, "residual_norm");
  add_kernel<RmsNorm>(table, "rms_norm");
  add_kernel<RmsNormBackward>(table, "rms_norm_backward");
  table.add("layer_norm_quantise",
            [](const OpView& view) { return with_codes(view, make_kernel<LayerNorm>(view)); });
  table.add("residual_norm_quantise",
            [](const OpView& view) { return with_codes(view, make_kernel<ResidualNorm>(view)); });
  table.add("rms_norm_quantise",
            [](const OpView& view) { return with_codes(view, make_kernel<RmsNorm>(view)); });
}

}  // namespace recollect::cpu
