// Normalisation, forward. A row is read from memory once; its later passes find it in the first-level cache.
// Narrow rows belong to a warp, wide ones to a block. Layer normalisation is centered; that by the root mean
// square is not: its mean is zero, and it has no bias; nor need layer normalisation have one. The norm of a sum that is made on the way has the bits of a norm of
// the sum as it was stored: what could be one instruction or two is written as one. Where there will be codes of a norm,
// each block finds the largest of what it stores.
#include "engine/ops/cuda/codes.h"
#include "engine/ops/cuda/row_kernel.h"
#include "engine/ops/cuda/workspaces.h"
#include "engine/ops/norm.h"
#include "engine/runtime/cuda/reduce.h"

namespace recollect::cuda {

namespace {

constexpr int kWarps = NormRowsCut::kWarps;

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

template <bool kBlockRow>
__device__ int64_t own_row() {
  return kBlockRow ? int64_t{blockIdx.x} : blockIdx.x * int64_t{kWarps} + threadIdx.y;
}

// By all threads of the block.
template <bool kBlockRow>
__device__ void store_largest(uint32_t most, uint32_t* parts) {
  if constexpr (kBlockRow) {
    most = reduce_block<LargerBits>(most, uint32_t{0});
  } else {
    RECOLLECT_SHARED(of_rows, uint32_t[kWarps]);
    most = reduce_warp<LargerBits>(most);
    if (threadIdx.x == 0) of_rows[threadIdx.y] = most;
    __syncthreads();
    if (threadIdx.y > 0) return;
    most = reduce_warp<LargerBits>(threadIdx.x < kWarps ? of_rows[threadIdx.x] : 0u);
  }
  if (threadIdx.x == 0) parts[blockIdx.x] = most;
}

// Returns the magnitude_bits of the largest number that the thread stores.
template <typename A, int N, bool kCentered, bool kBlockRow>
__device__ uint32_t normalize_row(const A* __restrict__ x, const float* __restrict__ weight,
                                  const float* __restrict__ bias, A* __restrict__ y,
                                  float* __restrict__ means, float* __restrict__ rstds, int64_t row,
                                  int64_t width, float epsilon, float offset) {
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

  uint32_t most = 0;
  for (int64_t c = first; c < width; c += step) {
    const Floats<N> in = load<N>(from + c);
    Floats<N> scale = load<N>(weight + c);
    if constexpr (!kCentered)
#pragma unroll
      for (int i = 0; i < N; ++i) scale[i] += offset;
    const Floats<N> shift = kCentered && bias ? load<N>(bias + c) : Floats<N>{};
    const Floats<N> made = normalized(in, mean, rstd, scale, shift);
    store<N>(y + row * width + c, made);
    most = larger_bits(most, as_stored<A>(made));
  }
  if (threadIdx.x == 0) {
    if constexpr (kCentered) means[row] = mean;
    rstds[row] = rstd;
  }
  return most;
}

template <typename A, int N, bool kCentered, bool kBlockRow, bool kLargest>
__global__ void __launch_bounds__(kWarp* kWarps)
    normalize(const A* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
              A* __restrict__ y, float* __restrict__ means, float* __restrict__ rstds, int64_t rows,
              int64_t width, float epsilon, float offset, uint32_t* __restrict__ parts) {
  const int64_t row = own_row<kBlockRow>();
  uint32_t most = 0;
  if (row < rows)
    most = normalize_row<A, N, kCentered, kBlockRow>(x, weight, bias, y, means, rstds, row, width, epsilon,
                                                     offset);
  if constexpr (kLargest) store_largest<kBlockRow>(most, parts);
}

struct NormRows : NormRowsCut {
  explicit NormRows(const OpView& view)
      : NormRowsCut(view),
        epsilon(static_cast<float>(view.attributes().real("epsilon"))),
        offset(static_cast<float>(weight_offset(view.attributes()))) {}

  dim3 block() const { return block_rows ? dim3(kWarp * kWarps) : dim3(kWarp, kWarps); }

  float epsilon, offset;
};

template <typename A, int N, bool kCentered>
struct Norm : NormRows {
  static constexpr int kOutput = 0;
  using NormRows::NormRows;

  template <bool kLargest>
  void run(const KernelArgs& args, uint32_t* parts) const {
    launch(this->block_rows ? normalize<A, N, kCentered, true, kLargest>
                            : normalize<A, N, kCentered, false, kLargest>,
           grid_of(this->blocks()), this->block(), 0, args.stream, args.in[0].as<A>(), args.in[1].as<float>(),
           kCentered && args.in.size() > 2 ? args.in[2].as<float>() : nullptr, args.out[0].as<A>(),
           kCentered ? args.out[1].as<float>() : nullptr, args.out[kCentered ? 2 : 1].as<float>(), this->rows,
           this->width, this->epsilon, this->offset, parts);
  }
};

template <typename A>
struct ResidualNormOperands {
  const A* x;
  const float* bias;
  const A* residual;
  const float *weight, *shift;  // shift: null where there is none
  A *y, *norm;                  // may be where x and the residual are
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

// As normalize_row. A thread holds its kHeld vectors of a row in registers; with 0 it reads them again where it has stored
// them.
template <typename A, int N, int kHeld, bool kBlockRow>
__device__ uint32_t add_and_normalize_row(const ResidualNormOperands<A>& in, int64_t row) {
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

  uint32_t most = 0;
  each([&](const Floats<N>& x, int64_t c) {
    const Floats<N> scale = load<N>(in.weight + c), shift = in.shift ? load<N>(in.shift + c) : Floats<N>{};
    const Floats<N> made = normalized(of_sum(x, c), mean, rstd, scale, shift);
    store<N>(in.norm + begin + c, made);
    most = larger_bits(most, as_stored<A>(made));
  });
  if (threadIdx.x == 0) {
    in.means[row] = mean;
    in.rstds[row] = rstd;
  }
  return most;
}

template <typename A, int N, int kHeld, bool kBlockRow, bool kLargest>
__global__ void __launch_bounds__(kWarp* kWarps)
    add_and_normalize(const ResidualNormOperands<A> in, uint32_t* parts) {
  const int64_t row = own_row<kBlockRow>();
  uint32_t most = 0;
  if (row < in.rows) most = add_and_normalize_row<A, N, kHeld, kBlockRow>(in, row);
  if constexpr (kLargest) store_largest<kBlockRow>(most, parts);
}

template <typename A, int N>
struct SumNorm : NormRows {
  static constexpr int kOutput = 1;
  using NormRows::NormRows;

  template <bool kLargest>
  void run(const KernelArgs& args, uint32_t* parts) const {
    const ResidualNormOperands<A> in{.x = args.in[0].as<A>(),
                                     .bias = args.in[1].as<float>(),
                                     .residual = args.in[2].as<A>(),
                                     .weight = args.in[3].as<float>(),
                                     .shift = args.in.size() > 4 ? args.in[4].as<float>() : nullptr,
                                     .y = args.out[0].as<A>(),
                                     .norm = args.out[1].as<A>(),
                                     .means = args.out[2].as<float>(),
                                     .rstds = args.out[3].as<float>(),
                                     .rows = this->rows,
                                     .width = this->width,
                                     .epsilon = this->epsilon};
    launch(this->block_rows ? kernel<true, kLargest>() : kernel<false, kLargest>(), grid_of(this->blocks()),
           this->block(), 0, args.stream, in, parts);
  }

 private:
  static constexpr int kFew = N > 1 ? 4 : 0, kMany = N > 1 ? 8 : 0;  // vectors that a thread holds

  template <bool kBlockRow, bool kLargest>
  auto* kernel() const {
    const int64_t vectors = ceil_div(this->width, int64_t{this->block().x} * N);
    return vectors <= kFew    ? add_and_normalize<A, N, kFew, kBlockRow, kLargest>
           : vectors <= kMany ? add_and_normalize<A, N, kMany, kBlockRow, kLargest>
                              : add_and_normalize<A, N, 0, kBlockRow, kLargest>;
  }
};

template <typename Rows>
class Normalize : public Kernel {
 public:
  explicit Normalize(const OpView& view) : rows_(view) {}
  void run(const KernelArgs& args) override { rows_.template run<false>(args, nullptr); }

 private:
  Rows rows_;
};

template <typename A, typename Rows>
class NormalizeAndQuantise : public CodeWriter<A> {
 public:
  explicit NormalizeAndQuantise(const OpView& view) : NormalizeAndQuantise(view, Rows(view)) {}

  void run(const KernelArgs& args) override {
    normalized_.template run<true>(args, this->parts(args));
    this->write(args, args.out[Rows::kOutput].template as<A>());
  }

 private:
  NormalizeAndQuantise(const OpView& view, const Rows& rows)
      : CodeWriter<A>(view, view.out(Rows::kOutput).shape, rows.blocks()), normalized_(rows) {}

  Rows normalized_;
};

template <typename A, int N>
using LayerNorm = Normalize<Norm<A, N, true>>;
template <typename A, int N>
using RmsNorm = Normalize<Norm<A, N, false>>;
template <typename A, int N>
using ResidualNorm = Normalize<SumNorm<A, N>>;
template <typename A, int N>
using LayerNormWithCodes = NormalizeAndQuantise<A, Norm<A, N, true>>;
template <typename A, int N>
using RmsNormWithCodes = NormalizeAndQuantise<A, Norm<A, N, false>>;
template <typename A, int N>
using ResidualNormWithCodes = NormalizeAndQuantise<A, SumNorm<A, N>>;

}  // namespace

void register_layer_norm(KernelTable& table) {
  add_row_kernel<LayerNorm>(table, "layer_norm");
  add_row_kernel<ResidualNorm>(table, "residual_norm");
  add_row_kernel<RmsNorm>(table, "rms_norm");
  add_row_kernel<LayerNormWithCodes>(table, "layer_norm_quantise");
  add_row_kernel<ResidualNormWithCodes>(table, "residual_norm_quantise");
  add_row_kernel<RmsNormWithCodes>(table, "rms_norm_quantise");
}

}  // namespace recollect::cuda
