// Adds a multiple of a narrow value to some columns of a wide one, and the gradient of that: one pass over
// memory each.
#include <numeric>

#include "engine/ops/cuda/row_kernel.h"

namespace recollect::cuda {

namespace {

constexpr int kColumnThreads = 256;

// `count` columns, from column `first`, of a value with `width` columns.
struct SomeColumns {
  int64_t width, first, count;
};

// y = x + scale * part in the columns `added`. A thread handles one vector of the columns `walked`: all
// columns, or only those of `added` if y is x.
template <typename A, int N>
__global__ void __launch_bounds__(kColumnThreads)
    add_scaled(const A* x, const A* part, A* y, int64_t vectors, SomeColumns walked, SomeColumns added,
               float scale) {
  const int64_t vector = blockIdx.x * int64_t{kColumnThreads} + threadIdx.x;
  if (vector >= vectors) return;
  const int64_t in_row = walked.count / N, row = vector / in_row,
                column = walked.first + (vector - row * in_row) * N, inside = column - added.first,
                at = row * walked.width + column;
  Floats<N> value = load<N>(x + at);
  if (inside >= 0 && inside < added.count) {
    const Floats<N> more = load<N>(part + row * added.count + inside);
#pragma unroll
    for (int i = 0; i < N; ++i) value[i] += scale * more[i];
  }
  store<N>(y + at, value);
}

template <typename A, int N>
__global__ void __launch_bounds__(kColumnThreads)
    take_scaled(const A* dy, A* dpart, int64_t vectors, SomeColumns taken, float scale) {
  const int64_t vector = blockIdx.x * int64_t{kColumnThreads} + threadIdx.x;
  if (vector >= vectors) return;
  const int64_t in_row = taken.count / N, row = vector / in_row, column = (vector - row * in_row) * N;
  Floats<N> value = load<N>(dy + row * taken.width + taken.first + column);
#pragma unroll
  for (int i = 0; i < N; ++i) value[i] *= scale;
  store<N>(dpart + vector * N, value);
}

template <typename A, int N>
class AddScaledColumns : public Kernel {
 public:
  explicit AddScaledColumns(const OpView& view)
      : rows_(view.in(0).shape[0]),
        added_{view.in(0).shape[1], view.attributes().integer("first_column"), view.in(1).shape[1]},
        scale_(static_cast<float>(view.attributes().real("scale"))) {}

  void run(const KernelArgs& args) override {
    const A* x = args.in[0].as<A>();
    A* y = args.out[0].as<A>();
    const SomeColumns walked = x == y ? added_ : SomeColumns{added_.width, 0, added_.width};
    const int64_t vectors = rows_ * (walked.count / N);
    launch(add_scaled<A, N>, grid_of(ceil_div(vectors, kColumnThreads)), dim3(kColumnThreads), 0, args.stream,
           x, args.in[1].as<A>(), y, vectors, walked, added_, scale_);
  }

 private:
  int64_t rows_;
  SomeColumns added_;
  float scale_;
};

template <typename A, int N>
class ScaledColumns : public Kernel {
 public:
  explicit ScaledColumns(const OpView& view)
      : rows_(view.in(0).shape[0]),
        taken_{view.in(0).shape[1], view.attributes().integer("first_column"), view.out(0).shape[1]},
        scale_(static_cast<float>(view.attributes().real("scale"))) {}

  void run(const KernelArgs& args) override {
    const int64_t vectors = rows_ * (taken_.count / N);
    launch(take_scaled<A, N>, grid_of(ceil_div(vectors, kColumnThreads)), dim3(kColumnThreads), 0,
           args.stream, args.in[0].as<A>(), args.out[0].as<A>(), vectors, taken_, scale_);
  }

 private:
  int64_t rows_;
  SomeColumns taken_;
  float scale_;
};

// The vector length must divide the row, the first column and the number of columns, so that no vector
// crosses an edge.
template <template <typename, int> class K>
KernelPointer make_columns_kernel(const OpView& view, int64_t columns, const char* kind) {
  const int64_t whole =
      std::gcd(std::gcd(view.in(0).shape[1], columns), view.attributes().integer("first_column"));
  return with_row_vectors(view.in(0).dtype, whole, kind, [&]<typename A, int N>() -> KernelPointer {
    return std::make_unique<K<A, N>>(view);
  });
}

}  // namespace

void register_scaled_columns(KernelTable& table) {
  table.add("add_scaled_columns", [](const OpView& view) {
    return make_columns_kernel<AddScaledColumns>(view, view.in(1).shape[1], "add_scaled_columns");
  });
  table.add("scaled_columns", [](const OpView& view) {
    return make_columns_kernel<ScaledColumns>(view, view.out(0).shape[1], "scaled_columns");
  });
}

}  // namespace recollect::cuda
