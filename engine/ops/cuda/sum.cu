// The sum of two values, and the sums of one value's columns, each one pass over memory.
#include "engine/ops/cuda/columns.h"
#include "engine/ops/cuda/row_kernel.h"

namespace recollect::cuda {

namespace {

constexpr int kThreads = 256;

// One vector per thread; the last thread takes what is left, element by element.
template <typename A>
__global__ void __launch_bounds__(kThreads) add_elements(const A* a, const A* b, A* y, int64_t count) {
  constexpr int N = kVector<A>;
  const int64_t at = (blockIdx.x * int64_t{kThreads} + threadIdx.x) * N;
  if (at + N <= count) {
    const Floats<N> left = load<N>(a + at), right = load<N>(b + at);
    Floats<N> sum;
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] = left[i] + right[i];
    store<N>(y + at, sum);
  } else {
    for (int64_t i = at; i < count; ++i) store_one(y + i, load_one(a + i) + load_one(b + i));
  }
}

template <typename A>
class Add : public Kernel {
 public:
  explicit Add(const OpView& view) : count_(view.in(0).shape.elements()) {}
  void run(const KernelArgs& args) override {
    launch(add_elements<A>, grid_of(ceil_div(count_, kThreads * kVector<A>)), dim3(kThreads), 0, args.stream,
           args.in[0].as<A>(), args.in[1].as<A>(), args.out[0].as<A>(), count_);
  }

 private:
  int64_t count_;
};

template <typename A, int N>
class ColumnSum : public SumKernel {
 public:
  explicit ColumnSum(const OpView& view) : SumKernel(view, N) {}
  void run(const KernelArgs& args) override {
    walk_and_sum(args, ColumnSumBody<A, N>{args.in[0].as<A>(), walk_.width}, args.out[0]);
  }
};

}  // namespace

KernelPointer make_column_sum(const OpView& view) { return make_row_kernel<ColumnSum>(view, "column_sum"); }

void register_sum(KernelTable& table) {
  add_kernel<Add>(table, "add");
  table.add("column_sum", make_column_sum);
}

}  // namespace recollect::cuda
