// Reads rows of a table, or of activations, and writes or adds them as rows of activations, one warp per row.
// The gradient of the position table is a sum over samples; one thread computes each number.
#include "engine/ops/cuda/row_kernel.h"

namespace recollect::cuda {

namespace {

constexpr int kWarps = 8;  // of a block

__device__ int64_t warp_index() { return blockIdx.x * int64_t{kWarps} + threadIdx.y; }
dim3 warps_grid(int64_t rows) { return grid_of(ceil_div(rows, kWarps)); }
constexpr dim3 warps_block() { return dim3(kWarp, kWarps); }

// Each of these types maps row i of the output to the row that is read for it; a negative result means none.

// The row of a table, or of this rank's shard of it, that an id names.
struct ById {
  const int32_t* ids;
  int64_t first_row, rows;
  __device__ int64_t row_of(int64_t i) const {
    const int64_t row = ids[i] - first_row;
    return row < rows ? row : -1;
  }
};

// Token i is at position (first + i) % length.
struct Positions {
  explicit Positions(const Attributes& attributes)
      : length(attributes.integer("sequence_length")), first(attributes.integer("first_token") % length) {}
  __device__ int64_t row_of(int64_t i) const { return (first + i) % length; }
  int64_t length, first;
};

// The row of the first token of sample i, if it is among these `rows` rows, which begin with token `first`.
struct FirstOfSample {
  int64_t length, first, rows;
  __device__ int64_t row_of(int64_t i) const {
    const int64_t row = i * length - first;
    return row < rows ? row : -1;
  }
};

// The sample whose first token is token i, if there is one.
struct SampleOfFirst {
  int64_t length, first;
  __device__ int64_t row_of(int64_t i) const { return (first + i) % length == 0 ? (first + i) / length : -1; }
};

// The index in `which` (of `count` token numbers) that names token i.
struct NamingToken {
  const int32_t* which;
  int64_t first, count;
  __device__ int64_t row_of(int64_t i) const {
    for (int64_t row = 0; row < count; ++row)
      if (which[row] == first + i) return row;
    return -1;
  }
};

// Writes `count` rows of y: each is a copy of a row of the table, or zero if there is none.
template <typename A, int N, typename Which>
__global__ void __launch_bounds__(kWarp* kWarps) take_rows(const Which which, const A* __restrict__ table,
                                                           A* __restrict__ y, int64_t count, int64_t width) {
  const int64_t i = warp_index();
  if (i >= count) return;
  const int64_t row = which.row_of(i);
  const bool here = row >= 0;
  const A* from = table + (here ? row : 0) * width;
  A* to = y + i * width;
  for (int64_t c = threadIdx.x * N; c < width; c += kWarp * N) {
    const Floats<N> found = here ? load<N>(from + c) : Floats<N>{};
    store<N>(to + c, found);
  }
}

template <typename A, int N, typename Which>
void launch_take(const KernelArgs& args, const Which& which, const Tensor& table) {
  const int64_t count = args.out[0].shape[0];
  launch(take_rows<A, N, Which>, warps_grid(count), warps_block(), 0, args.stream, which, table.as<A>(),
         args.out[0].as<A>(), count, args.out[0].shape[1]);
}

template <typename A, int N>
class Embedding : public Kernel {
 public:
  explicit Embedding(const OpView& view)
      : rows_(view.in(1).shape[0]), first_row_(view.attributes().integer("first_row")) {}

  void run(const KernelArgs& args) override {
    launch_take<A, N>(args, ById{args.in[0].as<int32_t>(), first_row_, rows_}, args.in[1]);
  }

 private:
  int64_t rows_, first_row_;
};

template <typename A, int N>
class FirstTokens : public Kernel {
 public:
  explicit FirstTokens(const OpView& view)
      : which_{view.attributes().integer("sequence_length"), view.attributes().integer("first_token"),
               view.in(0).shape[0]} {}
  void run(const KernelArgs& args) override {
    if (args.in.size() > 1)
      launch_take<A, N>(args, ById{args.in[1].as<int32_t>(), which_.first, which_.rows}, args.in[0]);
    else
      launch_take<A, N>(args, which_, args.in[0]);
  }

 private:
  FirstOfSample which_;
};

template <typename A, int N>
class FirstTokensBackward : public Kernel {
 public:
  explicit FirstTokensBackward(const OpView& view)
      : which_{view.attributes().integer("sequence_length"), view.attributes().integer("first_token")} {}
  void run(const KernelArgs& args) override {
    if (args.in.size() > 1)
      launch_take<A, N>(args, NamingToken{args.in[1].as<int32_t>(), which_.first, args.in[0].shape[0]},
                        args.in[0]);
    else
      launch_take<A, N>(args, which_, args.in[0]);
  }

 private:
  SampleOfFirst which_;
};

// y = x + the table's rows, for each token.
template <typename A, int N, typename Which>
__global__ void __launch_bounds__(kWarp* kWarps)
    add_rows(const Which which, const A* x, const A* __restrict__ table, A* y, int64_t tokens,
             int64_t width) {
  const int64_t token = warp_index();
  if (token >= tokens) return;
  const int64_t row = which.row_of(token);
  const bool here = row >= 0;
  const A* from = table + (here ? row : 0) * width;
  for (int64_t c = threadIdx.x * N; c < width; c += kWarp * N) {
    const Floats<N> in = load<N>(x + token * width + c);
    const Floats<N> found = here ? load<N>(from + c) : Floats<N>{};
    Floats<N> sum;
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] = in[i] + found[i];
    store<N>(y + token * width + c, sum);
  }
}

template <typename A, int N, typename Which>
void launch_add(const KernelArgs& args, const Which& which, const Tensor& table) {
  const int64_t tokens = args.in[0].shape[0];
  launch(add_rows<A, N, Which>, warps_grid(tokens), warps_block(), 0, args.stream, which, args.in[0].as<A>(),
         table.as<A>(), args.out[0].as<A>(), tokens, args.in[0].shape[1]);
}

template <typename A, int N>
class AddPosition : public Kernel {
 public:
  explicit AddPosition(const OpView& view) : positions_(view.attributes()) {}
  void run(const KernelArgs& args) override { launch_add<A, N>(args, positions_, args.in[1]); }

 private:
  Positions positions_;
};

template <typename A, int N>
class AddEmbedding : public Kernel {
 public:
  explicit AddEmbedding(const OpView& view) : first_token_(view.attributes().integer("first_token")) {}
  void run(const KernelArgs& args) override {
    const ById which{args.in[1].as<int32_t>() + first_token_, 0, args.in[2].shape[0]};
    launch_add<A, N>(args, which, args.in[2]);
  }

 private:
  int64_t first_token_;
};

// Thread (x, y) handles N columns of one row of the table and adds up the gradients of its tokens in order.
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
  add_row_kernel<AddEmbedding>(table, "add_embedding");
  add_row_kernel<FirstTokens>(table, "first_tokens");
  add_row_kernel<FirstTokensBackward>(table, "first_tokens_backward");
}

}  // namespace recollect::cuda
