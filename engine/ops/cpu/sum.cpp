// The sum of two values, and the column sums of one: one pass over memory each.
#include "engine/ops/cpu/column_sums.h"
#include "engine/ops/cpu/row_kernel.h"

namespace recollect::cpu {

namespace {

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

}  // namespace

void register_sum(KernelTable& table) {
  add_kernel<Add>(table, "add");
  add_kernel<ColumnSum>(table, "column_sum");
}

}  // namespace recollect::cpu
