// Normalisation, forward. A row is read from memory once; its later passes find it in the first-level cache.
// Narrow rows belong to a warp, wide ones to a block. Layer normalisation is centered; that by the root mean
// square is not: its mean is zero, and it has no bias. The norm of a sum that is made on the way has the bits of a norm of
// the sum as it was stored: what could be one instruction or two is written as one.
#include "engine/ops/cuda/row_kernel.h"
#include "engine/runtime/cuda/reduce.h"

namespace recollect::cuda {

namespace {

constexpr int kWarps = 8;              // of a block
constexpr int64_t kWarpVectors = 256;  // a row of more is a block's

// kBlockRow: a row per block of one dim; else a row per warp of a block of (32, kWarps).
template <bool kBlockRow>
__device__ float row_sum(float x) {
  if constexpr (kBlockRow) return reduce_block<Sum>(x, 0.0f);
  return reduce_warp<Sum>(x);
}

template <int N>
__device__ float add_squares(float squares, const Floats<N>& x, float mean) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float distance = x[i] - mean;
    squares = fmaf(distance, distance, squares);
  }
  return squares;
}

__device__ float rstd_of(float squares, int64_t width, float epsilon) {
  return 1.0f / sqrtf(squares / static_cast<float>(width) + epsilon);
}

template <int N>
__device__ Floats<N> normalized(Floats<N> x, float mean, float rstd, const Floats<N>& scale,
                                const Floats<N>& shift) {
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = fmaf((x[i] - mean) * rstd, scale[i], shift[i]);
  return x;
}

template <typename A, int N, bool kCentered, bool kBlockRow>
__global__ void __launch_bounds__(kWarp* kWarps)
    normalize(const A* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
              A* __restrict__ y, float* __restrict__ means, float* __restrict__ rstds, int64_t rows,
              int64_t width, float epsilon) {
  const int64_t row = kBlockRow ? int64_t{blockIdx.x} : blockIdx.x * int64_t{kWarps} + threadIdx.y;
  if (row >= rows) return;
  const A* from = x + row * width;
  const int64_t first = threadIdx.x * N, step = blockDim.x * N;

  float mean = 0.0f;
  if constexpr (kCentered) {
    float sum = 0.0f;
    for (int64_t c = first; c < width; c += step) {
      const Floats<N> in = load<N>(from + c);
#pragma unroll
      for (int i = 0; i < N; ++i) sum += in[i];
    }
    mean = row_sum<kBlockRow>(sum) / static_cast<float>(width);
  }

  float squares = 0.0f;
  for (int64_t c = first; c < width; c += step) squares = add_squares(squares, load<N>(from + c), mean);
  const float rstd = rstd_of(row_sum<kBlockRow>(squares), width, epsilon);

  for (int64_t c = first; c < width; c += step) {
    const Floats<N> in = load<N>(from + c), scale = load<N>(weight + c);
    const Floats<N> shift = kCentered ? load<N>(bias + c) : Floats<N>{};
    store<N>(y + row * width + c, normalized(in, mean, rstd, scale, shift));
  }
  if (threadIdx.x == 0) {
    if constexpr (kCentered) means[row] = mean;
    rstds[row] = rstd;
  }
}

template <typename A, int N, bool kCentered>
class Norm : public Kernel {
 public:
  explicit Norm(const OpView& view)
      : rows_(view.in(0).shape[0]),
        width_(view.in(0).shape[1]),
        epsilon_(static_cast<float>(view.attributes().real("epsilon"))) {}

  void run(const KernelArgs& args) override {
    if (width_ > kWarpVectors * N)
      start(normalize<A, N, kCentered, true>, grid_of(rows_), dim3(kWarp * kWarps), args);
    else
      start(normalize<A, N, kCentered, false>, grid_of(ceil_div(rows_, kWarps)), dim3(kWarp, kWarps), args);
  }

 private:
  template <typename F>
  void start(F* kernel, dim3 grid, dim3 block, const KernelArgs& args) const {
    launch(kernel, grid, block, 0, args.stream, args.in[0].as<A>(), args.in[1].as<float>(),
           kCentered ? args.in[2].as<float>() : nullptr, args.out[0].as<A>(),
           kCentered ? args.out[1].as<float>() : nullptr, args.out[kCentered ? 2 : 1].as<float>(), rows_,
           width_, epsilon_);
  }

  int64_t rows_, width_;
  float epsilon_;
};

template <typename A>
struct ResidualNormOperands {
  const A* x;
  const float* bias;
  const A* residual;
  const float *weight, *shift;
  A *y, *norm;  // may be where x and the residual are
  float *means, *rstds;
  int64_t rows, width;
  float epsilon;

  // Stores the sum at an element, and returns it as it is there.
  template <int N>
  __device__ Floats<N> add(int64_t at, int64_t column) const {
    const Floats<N> in = load<N>(x + at), branch = load<N>(bias + column), before = load<N>(residual + at);
    Floats<N> sum;
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] = before[i] + (in[i] + branch[i]);
    store<N>(y + at, sum);
    return as_stored<A, N>(sum);
  }
};

// As normalize. A thread holds its kHeld vectors of a row in registers; with 0 it reads them again where it has stored
// them.
template <typename A, int N, int kHeld, bool kBlockRow>
__global__ void __launch_bounds__(kWarp* kWarps) add_and_normalize(const ResidualNormOperands<A> in) {
  const int64_t row = kBlockRow ? int64_t{blockIdx.x} : blockIdx.x * int64_t{kWarps} + threadIdx.y;
  if (row >= in.rows) return;
  const int64_t begin = row * in.width, first = threadIdx.x * N, step = blockDim.x * N;
  Floats<N> held[kHeld > 0 ? kHeld : 1];
  const auto each = [&](auto use) {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int v = 0; v < kHeld; ++v)
        if (first + v * step < in.width) use(held[v], first + v * step);
    } else {
      for (int64_t c = first; c < in.width; c += step) use(held[0], c);
    }
  };
  const auto of_sum = [&](const Floats<N>& x, int64_t c) {
    if constexpr (kHeld > 0) return x;
    return load<N>(in.y + begin + c);
  };

  float sum = 0.0f;
  each([&](Floats<N>& x, int64_t c) {
    x = in.template add<N>(begin + c, c);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += x[i];
  });
  const float mean = row_sum<kBlockRow>(sum) / static_cast<float>(in.width);

  float squares = 0.0f;
  each([&](const Floats<N>& x, int64_t c) { squares = add_squares(squares, of_sum(x, c), mean); });
  const float rstd = rstd_of(row_sum<kBlockRow>(squares), in.width, in.epsilon);

  each([&](const Floats<N>& x, int64_t c) {
    const Floats<N> scale = load<N>(in.weight + c), shift = load<N>(in.shift + c);
    store<N>(in.norm + begin + c, normalized(of_sum(x, c), mean, rstd, scale, shift));
  });
  if (threadIdx.x > 0) return;
  in.means[row] = mean;
  in.rstds[row] = rstd;
}

template <typename A, int N>
class ResidualNorm : public Kernel {
 public:
  explicit ResidualNorm(const OpView& view)
      : rows_(view.in(0).shape[0]),
        width_(view.in(0).shape[1]),
        epsilon_(static_cast<float>(view.attributes().real("epsilon"))) {}

  void run(const KernelArgs& args) override {
    const ResidualNormOperands<A> in{.x = args.in[0].as<A>(),
                                     .bias = args.in[1].as<float>(),
                                     .residual = args.in[2].as<A>(),
                                     .weight = args.in[3].as<float>(),
                                     .shift = args.in[4].as<float>(),
                                     .y = args.out[0].as<A>(),
                                     .norm = args.out[1].as<A>(),
                                     .means = args.out[2].as<float>(),
                                     .rstds = args.out[3].as<float>(),
                                     .rows = rows_,
                                     .width = width_,
                                     .epsilon = epsilon_};
    if (width_ > kWarpVectors * N)
      start<true>(in, grid_of(rows_), dim3(kWarp * kWarps), args.stream);
    else
      start<false>(in, grid_of(ceil_div(rows_, kWarps)), dim3(kWarp, kWarps), args.stream);
  }

 private:
  static constexpr int kFew = N > 1 ? 4 : 0, kMany = N > 1 ? 8 : 0;  // vectors that a thread holds

  template <bool kBlockRow>
  void start(const ResidualNormOperands<A>& in, dim3 grid, dim3 block, void* stream) const {
    const int64_t vectors = ceil_div(width_, int64_t{block.x} * N);
    auto* kernel = vectors <= kFew    ? add_and_normalize<A, N, kFew, kBlockRow>
                   : vectors <= kMany ? add_and_normalize<A, N, kMany, kBlockRow>
                                      : add_and_normalize<A, N, 0, kBlockRow>;
    launch(kernel, grid, block, 0, stream, in);
  }

  int64_t rows_, width_;
  float epsilon_;
};

template <typename A, int N>
using LayerNorm = Norm<A, N, true>;
template <typename A, int N>
using RmsNorm = Norm<A, N, false>;

}  // namespace

void register_layer_norm(KernelTable& table) {
  add_row_kernel<LayerNorm>(table, "layer_norm");
  add_row_kernel<ResidualNorm>(table, "residual_norm");
  add_row_kernel<RmsNorm>(table, "rms_norm");
}

}  // namespace recollect::cuda
