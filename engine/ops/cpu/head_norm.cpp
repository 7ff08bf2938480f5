// Norms of single heads, row by row: a head is read from memory once and stays in cache for its passes.
#include <omp.h>

#include <cmath>

#include "engine/ops/cpu/column_sums.h"
#include "engine/ops/cpu/kernels.h"
#include "engine/ops/norm.h"

namespace recollect::cpu {

namespace {

// The heads of a row. `x`: the number of the input with the heads; their weights are the next inputs.
struct HeadsOfRow {
  HeadsOfRow(const OpView& view, int x)
      : rows(view.in(x).shape[0]),
        width(view.in(x).shape[1]),
        size(view.in(x + 1).shape[0]),
        first(view.attributes().integer("heads")),
        all(first + view.attributes().integer("second_heads")),
        epsilon(static_cast<float>(view.attributes().real("epsilon"))),
        offset(static_cast<float>(weight_offset(view.attributes()))) {}

  template <typename A>
  float rstd(const A* x) const {
    float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
    for (int64_t c = 0; c < size; ++c) squares += load(x[c]) * load(x[c]);
    return 1.0f / std::sqrt(squares / static_cast<float>(size) + epsilon);
  }

  int64_t rows, width, size, first, all;
  float epsilon, offset;
};

template <typename A>
class HeadNorm : public Kernel {
 public:
  explicit HeadNorm(const OpView& view) : threads_(omp_get_max_threads()), heads_(view, 0) {}

  void run(const KernelArgs& args) override {
    const A* x = args.in[0].as<A>();
    A* y = args.out[0].as<A>();
    const int64_t size = heads_.size, width = heads_.width;
    parallel_ranges(threads_, heads_.rows, [&](int64_t first, int64_t last, int) {
      for (int64_t r = first; r < last; ++r) {
        for (int64_t head = 0; head < heads_.all; ++head) {
          const float* weight = args.in[head < heads_.first ? 1 : 2].as<float>();
          const A* from = x + r * width + head * size;
          const float rstd = heads_.rstd(from);
          write_each(y + r * width + head * size, size,
                     [&](int64_t c) { return load(from[c]) * rstd * (weight[c] + heads_.offset); });
        }
        const int64_t rest = r * width + heads_.all * size;
        if (x != y) std::copy(x + rest, x + (r + 1) * width, y + rest);
      }
    });
  }

 private:
  int threads_;
  HeadsOfRow heads_;
};

template <typename A>
class HeadNormBackward : public Kernel {
 public:
  explicit HeadNormBackward(const OpView& view)
      : heads_(view, 1),
        kinds_(heads_.all > heads_.first ? 2 : 1),
        sums_(omp_get_max_threads(), heads_.rows, kinds_ * heads_.size) {}

  // Partial sums of both kinds of weights, and room for their total.
  std::size_t workspace_bytes() const override {
    return sums_.workspace_bytes() + (sizeof(float) * kinds_ * heads_.size + 63) / 64 * 64;
  }

  void run(const KernelArgs& args) override {
    const A *dy = args.in[0].as<A>(), *x = args.in[1].as<A>();
    A* dx = args.out[0].as<A>();
    const int64_t size = heads_.size, width = heads_.width;
    float* sums = reinterpret_cast<float*>(args.workspace + sums_.workspace_bytes());
    sums_.run(args.workspace, sums, false, [&](int64_t r, float* sum) {
      for (int64_t head = 0; head < heads_.all; ++head) {
        const int64_t at = r * width + head * size;
        const bool second = head >= heads_.first;
        one_head(dy + at, x + at, args.in[second ? 3 : 2].as<float>(), dx + at, second ? sum + size : sum);
      }
      const int64_t rest = r * width + heads_.all * size;
      if (dx != dy) std::copy(dy + rest, dy + (r + 1) * width, dx + rest);
    });
    for (int64_t kind = 0; kind < kinds_; ++kind) {
      float* out = args.out[static_cast<std::size_t>(1 + kind)].as<float>();
      for (int64_t c = 0; c < size; ++c)
        out[c] = args.accumulate ? out[c] + sums[kind * size + c] : sums[kind * size + c];
    }
  }

 private:
  void one_head(const A* dy, const A* x, const float* weight, A* dx, float* dweight) const {
    const float rstd = heads_.rstd(x), offset = heads_.offset;
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < heads_.size; ++c) {
      const float product = load(dy[c]) * (load(x[c]) * rstd);
      sum += product * (weight[c] + offset);
      dweight[c] += product;
    }
    const float average = sum / static_cast<float>(heads_.size);
    write_each(dx, heads_.size, [&](int64_t c) {
      return rstd * (load(dy[c]) * (weight[c] + offset) - load(x[c]) * rstd * average);
    });
  }

  HeadsOfRow heads_;
  int64_t kinds_;
  ColumnSums sums_;
};

}  // namespace

void register_head_norm(KernelTable& table) {
  add_kernel<HeadNorm>(table, "head_norm");
  table.add("head_norm_backward", [](const OpView& view) {
    return with_activation_type(
        view.in(1).dtype, "head_norm_backward",
        [&]<typename A>() -> std::unique_ptr<Kernel> { return std::make_unique<HeadNormBackward<A>>(view); });
  });
}

}  // namespace recollect::cpu
