// Causal attention, forward: scores, softmax and output of one strip at a time.
#include <algorithm>

#include "engine/ops/cpu/attention_kernel.h"
#include "engine/ops/cpu/kernels.h"
#include "engine/ops/cpu/simd_math.h"

namespace recollect::cpu {

namespace {

template <typename A>
class Attention : public AttentionKernel<A> {
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
  int64_t thread_floats() const { return 2 * keys_ * size_ + kStrip * (2 * size_ + strip_row_); }

  void run_unit(const KernelArgs& args, int64_t unit, Scratch scratch) const {
    const A* qkv = args.in[0].as<A>();
    float *k = scratch.take(keys_ * size_), *v = scratch.take(keys_ * size_);
    float *q = scratch.take(kStrip * size_), *o = scratch.take(kStrip * size_);
    float* p = scratch.take(kStrip * strip_row_);
    this->load_transposed(qkv + shape_.qkv_at(unit, 1), k);
    this->load_rows(qkv + shape_.qkv_at(unit, 2), shape_.qkv_row(), shape_.length, 1.0f, v);
    const DropoutMask mask = dropout_.mask(*args.state);
    for (int64_t first = 0; first < shape_.length; first += kStrip) {
      const int64_t rows = std::min(kStrip, shape_.length - first);
      const int64_t panels = (first + rows + kPanel - 1) / kPanel;
      this->load_rows(qkv + shape_.qkv_at(unit, 0) + first * shape_.qkv_row(), shape_.qkv_row(), rows,
                      shape_.scale, q);
      this->against_panels(rows, panels, q, k, p);
      float inverse[kStrip];
      float* lse = args.out[1].as<float>() + unit * shape_.length + first;
      for (int64_t i = 0; i < rows; ++i) {
        float* row = p + i * strip_row_;
        inverse[i] = 1.0f / softmax_row(row, first + i + 1, panels * kPanel, lse + i);
        if (mask.active())
          drop(mask, shape_.probability_at(*args.state, unit, first + i), first + i + 1, row);
      }
      tile_product(rows, size_, panels * kPanel, p, strip_row_, 1, v, size_, o, size_, false);
      A* out = args.out[0].as<A>() + shape_.out_at(unit) + first * shape_.out_row();
      for (int64_t i = 0; i < rows; ++i)
#pragma omp simd
        for (int64_t c = 0; c < shape_.head_size; ++c)
          store(out + i * shape_.out_row() + c, o[i * size_ + c] * inverse[i]);
    }
  }

  // Replaces the first `valid` scores by exponentials, the others by zero. Returns the exponentials' sum.
  static float softmax_row(float* row, int64_t valid, int64_t width, float* lse) {
    const float max = greatest(row, valid);
    float sum = 0.0f;
    const int64_t end = whole_vectors(valid);
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < end; ++j) {
      row[j] = j < valid ? fast_exp(row[j] - max) : 0.0f;
      sum += row[j];
    }
    std::fill(row + end, row + width, 0.0f);
    *lse = max + std::log(sum);
    return sum;
  }

  static void drop(const DropoutMask& mask, uint64_t index, int64_t valid, float* row) {
    float keep[kPanel];
    for (int64_t j = 0; j < valid; j += kPanel) {
      const int64_t n = std::min(kPanel, valid - j);
      mask.multipliers(index + j, n, keep);
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) row[j + i] *= keep[i];
    }
  }
};

}  // namespace

KernelPointer make_attention(const OpView& view) {
  if (KernelPointer kernel = make_amx_attention(view)) return kernel;
  return with_activation_type(view.in(0).dtype, "attention", [&]<typename A>() -> KernelPointer {
    return std::make_unique<Attention<A>>(view);
  });
}

}  // namespace recollect::cpu
