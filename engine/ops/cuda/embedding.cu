// Rows of tables added to, or taken as, rows of activations: a warp per row. The gradient of the position
// table is a sum over samples, one thread per number.
#include "engine/ops/cuda/row_kernel.h"

namespace recollect::cuda {

namespace {

constexpr int kWarps = 8;  // of a block

__device__ int64_t warp_index() { return blockIdx.x * int64_t{kWarps} + threadIdx.y; }
dim3 warps_grid(int64_t rows) { return grid_of(ceil_div(rows, kWarps)); }
constexpr dim3 warps_block() { return dim3(kWarp, kWarps); }

template <typename A, int N>
__global__ void __launch_bounds__(kWarp* kWarps)
    look_up(const int32_t* __restrict__ ids, const A* __restrict__ table, A* __restrict__ y, int64_t tokens,
            int64_t rows, int64_t width, int64_t first_row) {
  const int64_t token = warp_index();
  if (token >= tokens) return;
  const int64_t row = ids[token] - first_row;
  const bool here = row >= 0 && row < rows;
  const A* from = table + (here ? row : 0) * width;
  A* to = y + token * width;
  for (int64_t c = threadIdx.x * N; c < width; c += kWarp * N) {
    const Floats<N> found = here ? load<N>(from + c) : Floats<N>{};
    store<N>(to + c, found);
  }
}

template <typename A, int N>
class Embedding : public Kernel {
 public:
  explicit Embedding(const OpView& view)
      : tokens_(view.in(0).shape.elements()),
        rows_(view.in(1).shape[0]),
        width_(view.in(1).shape[1]),
        first_row_(view.attributes().integer("first_row")) {}

  void run(const KernelArgs& args) override {
    launch(look_up<A, N>, warps_grid(tokens_), warps_block(), 0, args.stream, args.in[0].as<int32_t>(),
           args.in[1].as<A>(), args.out[0].as<A>(), tokens_, rows_, width_, first_row_);
  }

 private:
  int64_t tokens_, rows_, width_, first_row_;
};

// Token i stands at position (first + i) % length.
struct Positions {
  explicit Positions(const Attributes& attributes)
      : length(attributes.integer("sequence_length")), first(attributes.integer("first_token") % length) {}
  int64_t length, first;
};

template <typename A, int N>
__global__ void __launch_bounds__(kWarp* kWarps)
    add_positions(const A* x, const A* __restrict__ table, A* y, int64_t tokens, int64_t width,
                  Positions positions) {
  const int64_t token = warp_index();
  if (token >= tokens) return;
  const A* from = table + (positions.first + token) % positions.length * width;
  for (int64_t c = threadIdx.x * N; c < width; c += kWarp * N) {
    const Floats<N> in = load<N>(x + token * width + c), position = load<N>(from + c);
    Floats<N> sum;
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] = in[i] + position[i];
    store<N>(y + token * width + c, sum);
  }
}

template <typename A, int N>
class AddPosition : public Kernel {
 public:
  explicit AddPosition(const OpView& view)
      : tokens_(view.in(0).shape[0]), width_(view.in(0).shape[1]), positions_(view.attributes()) {}

  void run(const KernelArgs& args) override {
    launch(add_positions<A, N>, warps_grid(tokens_), warps_block(), 0, args.stream, args.in[0].as<A>(),
           args.in[1].as<A>(), args.out[0].as<A>(), tokens_, width_, positions_);
  }

 private:
  int64_t tokens_, width_;
  Positions positions_;
};

// Thread (x, y): N columns of one row of the table, whose tokens it adds up in order.
template <typename A, int N>
__global__ void __launch_bounds__(kWarp* kWarps)
    sum_positions(const A* __restrict__ dy, float* __restrict__ dtable, int64_t rows, int64_t tokens,
                  int64_t width, Positions positions, bool accumulate) {
  const int64_t row = warp_index(), column = (blockIdx.y * int64_t{kWarp} + threadIdx.x) * N;
  if (row >= rows || column >= width) return;
  float* to = dtable + row * width + column;
  Floats<N> sum = accumulate ? load<N>(to) : Floats<N>{};
  if (row < positions.length) {
    const int64_t first = (row - positions.first + positions.length) % positions.length;
#pragma unroll 4
    for (int64_t token = first; token < tokens; token += positions.length) {
      const Floats<N> in = load<N>(dy + token * width + column);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += in[i];
    }
  }
  store<N>(to, sum);
}

template <typename A, int N>
class AddPositionBackward : public Kernel {
 public:
  explicit AddPositionBackward(const OpView& view)
      : rows_(view.out(0).shape[0]),
        tokens_(view.in(0).shape[0]),
        width_(view.in(0).shape[1]),
        positions_(view.attributes()) {}

  void run(const KernelArgs& args) override {
    const dim3 grid = grid_of(ceil_div(rows_, kWarps), ceil_div(width_, kWarp * N));
    launch(sum_positions<A, N>, grid, warps_block(), 0, args.stream, args.in[0].as<A>(),
           args.out[0].as<float>(), rows_, tokens_, width_, positions_, args.accumulate);
  }

 private:
  int64_t rows_, tokens_, width_;
  Positions positions_;
};

}  // namespace

void register_embedding(KernelTable& table) {
  add_row_kernel<Embedding>(table, "embedding", 1);
  add_row_kernel<AddPosition>(table, "add_position");
  add_row_kernel<AddPositionBackward>(table, "add_position_backward");
}

}  // namespace recollect::cuda
