// Normalisation, forward. A row is read from memory once; its later passes find it in the first-level cache.
// Narrow rows belong to a warp, wide ones to a block. Layer normalisation is centered; that by the root mean
// square is not: its mean is zero, and it has no bias.
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
  for (int64_t c = first; c < width; c += step) {
    const Floats<N> in = load<N>(from + c);
#pragma unroll
    for (int i = 0; i < N; ++i) squares += (in[i] - mean) * (in[i] - mean);
  }
  const float variance = row_sum<kBlockRow>(squares) / static_cast<float>(width);
  const float rstd = 1.0f / sqrtf(variance + epsilon);

  for (int64_t c = first; c < width; c += step) {
    const Floats<N> in = load<N>(from + c), scale = load<N>(weight + c);
    const Floats<N> shift = kCentered ? load<N>(bias + c) : Floats<N>{};
    Floats<N> out;
#pragma unroll
    for (int i = 0; i < N; ++i) out[i] = (in[i] - mean) * rstd * scale[i] + shift[i];
    store<N>(y + row * width + c, out);
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

template <typename A, int N>
using LayerNorm = Norm<A, N, true>;
template <typename A, int N>
using RmsNorm = Norm<A, N, false>;

}  // namespace

void register_layer_norm(KernelTable& table) {
  add_row_kernel<LayerNorm>(table, "layer_norm");
  add_row_kernel<RmsNorm>(table, "rms_norm");
}

}  // namespace recollect::cuda
