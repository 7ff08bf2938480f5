// Causal attention, backward.
#include <algorithm>

#include "engine/ops/cpu/attention_kernel.h"
#include "engine/ops/cpu/kernels.h"
#include "engine/ops/cpu/simd_math.h"

namespace recollect::cpu {

namespace {

// Recomputes a strip's probabilities from lse. With D the row sums of do * o (equal to those of the dropped
// probabilities' gradients times themselves), dS = P * (dP - D).
template <typename A>
class AttentionBackward : public AttentionKernel<A> {
  using Base = AttentionKernel<A>;
  using Base::dropout_, Base::keys_, Base::shape_, Base::size_, Base::strip_row_;

 public:
  using Base::Base;

  std::size_t workspace_bytes() const override { return shape_.threads * thread_floats() * sizeof(float); }

  void run(const KernelArgs& args) override {
    parallel_ranges(shape_.threads, shape_.units(), [&](int64_t first, int64_t last, int part) {
      std::byte* mine = args.workspace + part * thread_floats() * sizeof(float);
      std::fill_n(reinterpret_cast<float*>(mine), thread_floats(), 0.0f);
      for (int64_t unit = first; unit < last; ++unit) run_unit(args, unit, Scratch(mine));
    });
  }

 private:
  int64_t thread_floats() const { return 5 * keys_ * size_ + kStrip * (3 * size_ + 2 * strip_row_); }

  void run_unit(const KernelArgs& args, int64_t unit, Scratch scratch) const {
    const int64_t d = shape_.head_size, width = shape_.qkv_row();
    const A *dout = args.in[0].as<A>() + shape_.out_at(unit), *qkv = args.in[1].as<A>();
    const A* out = args.in[2].as<A>() + shape_.out_at(unit);
    const float* lse = args.in[3].as<float>() + unit * shape_.length;
    A* dqkv = args.out[0].as<A>();
    float *kt = scratch.take(keys_ * size_), *vt = scratch.take(keys_ * size_),
          *k = scratch.take(keys_ * size_);
    float *dk = scratch.take(keys_ * size_), *dv = scratch.take(keys_ * size_);
    float *q = scratch.take(kStrip * size_), *g = scratch.take(kStrip * size_),
          *dq = scratch.take(kStrip * size_);
    float *p = scratch.take(kStrip * strip_row_), *dp = scratch.take(kStrip * strip_row_);
    this->load_transposed(qkv + shape_.qkv_at(unit, 1), kt);
    this->load_transposed(qkv + shape_.qkv_at(unit, 2), vt);
    this->load_rows(qkv + shape_.qkv_at(unit, 1), width, shape_.length, 1.0f, k);
    std::fill_n(dk, 2 * keys_ * size_, 0.0f);
    const DropoutMask mask = dropout_.mask(*args.state);
    for (int64_t first = 0; first < shape_.length; first += kStrip) {
      const int64_t rows = std::min(kStrip, shape_.length - first);
      const int64_t panels = (first + rows + kPanel - 1) / kPanel, keys = panels * kPanel;
      this->load_rows(qkv + shape_.qkv_at(unit, 0) + first * width, width, rows, shape_.scale, q);
      this->load_rows(dout + first * shape_.out_row(), shape_.out_row(), rows, 1.0f, g);
      this->against_panels(rows, panels, q, kt, p);
      this->against_panels(rows, panels, g, vt, dp);
      for (int64_t i = 0; i < rows; ++i) {
        const float dot = row_dot(g + i * size_, out + (first + i) * shape_.out_row(), d);
        gradient_row(mask, shape_.probability_at(*args.state, unit, first + i), lse[first + i], dot,
                     first + i + 1, keys, p + i * strip_row_, dp + i * strip_row_);
      }
      tile_product(keys, size_, rows, p, 1, strip_row_, g, size_, dv, size_, true);
      tile_product(keys, size_, rows, dp, 1, strip_row_, q, size_, dk, size_, true);
      tile_product(rows, size_, keys, dp, strip_row_, 1, k, size_, dq, size_, false);
      store_rows(dq, rows, shape_.scale, dqkv + shape_.qkv_at(unit, 0) + first * width);
    }
    store_rows(dk, shape_.length, 1.0f, dqkv + shape_.qkv_at(unit, 1));
    store_rows(dv, shape_.length, 1.0f, dqkv + shape_.qkv_at(unit, 2));
  }

  static float row_dot(const float* a, const A* b, int64_t n) {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < n; ++c) sum += a[c] * load(b[c]);
    return sum;
  }

  // From scores and dP, in place: the dropped probabilities, and dS.
  void gradient_row(const DropoutMask& mask, uint64_t index, float lse, float dot, int64_t valid,
                    int64_t width, float* p, float* dp) const {
    float keep[kPanel];
    std::fill_n(keep, kPanel, 1.0f);
    for (int64_t j = 0; j < valid; j += kPanel) {
      const int64_t n = std::min(kPanel, valid - j);
      if (mask.active()) mask.multipliers(index + j, n, keep);
      const int64_t end = whole_vectors(n);
#pragma omp simd
      for (int64_t i = 0; i < end; ++i) {
        const float probability = i < n ? fast_exp(p[j + i] - lse) : 0.0f;
        p[j + i] = probability * keep[i];
        dp[j + i] = probability * (dp[j + i] * keep[i] - dot);
      }
    }
    std::fill(p + whole_vectors(valid), p + width, 0.0f);
    std::fill(dp + whole_vectors(valid), dp + width, 0.0f);
  }

  void store_rows(const float* from, int64_t rows, float scale, A* to) const {
    for (int64_t i = 0; i < rows; ++i)
#pragma omp simd
      for (int64_t c = 0; c < shape_.head_size; ++c)
        store(to + i * shape_.qkv_row() + c, scale * from[i * size_ + c]);
  }
};

}  // namespace

KernelPointer make_attention_backward(const OpView& view) {
  if (KernelPointer kernel = make_amx_attention_backward(view)) return kernel;
  return with_activation_type(view.in(0).dtype, "attention_backward", [&]<typename A>() -> KernelPointer {
    return std::make_unique<AttentionBackward<A>>(view);
  });
}

}  // namespace recollect::cpu
