// Normalisation, backward. One kernel makes dx and each block's part of dweight and dbias: threads stay with
// their columns, whose sums they hold, and go from row to row; a second pass adds the parts up in order. Rows
// that are no whole vectors, or too wide for that, take two kernels that each read them. That by the root
// mean square is layer normalisation that is not centered: the mean is zero, and there is no bias.
#include "engine/ops/cuda/columns.h"
#include "engine/ops/cuda/kernels.h"
#include "engine/ops/cuda/workspaces.h"
#include "engine/ops/norm.h"

namespace recollect::cuda {

namespace {

constexpr int kThreads = NormBackwardWorkspace::kThreads;

template <typename A, bool kCentered>
struct NormOperands {
  const A *dy, *x;
  const float *weight, *mean, *rstd;  // mean: null where it is zero
  const A* add;                       // may be null
  A* dx;                              // may be where dy is
  int64_t rows, width;
  float offset;  // added to the weights of an RMS norm

  template <int N>
  __device__ Floats<N> scale(int64_t column) const {
    Floats<N> of_columns = load<N>(weight + column);
    if constexpr (!kCentered)
#pragma unroll
      for (int i = 0; i < N; ++i) of_columns[i] += offset;
    return of_columns;
  }
  __device__ float mean_of(int64_t row) const {
    if constexpr (kCentered) return mean[row];
    return 0.0f;
  }
};

// With n = (x - mean) * rstd and g = dy * weight: dx = rstd * (g - average(g) - n * average(g * n)) + add,
// where only what is centered has the average of g.
template <bool kCentered>
struct RowSums {
  float g = 0.0f, gn = 0.0f;

  template <int N>
  __device__ void add(const Floats<N>& dy, const Floats<N>& normal, const Floats<N>& weight) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if constexpr (kCentered) g += dy[i] * weight[i];
      gn += dy[i] * weight[i] * normal[i];
    }
  }
};

template <int N>
__device__ Floats<N> normalized(Floats<N> x, float mean, float rstd) {
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = (x[i] - mean) * rstd;
  return x;
}

// `averages`: of g and of g * n over the row.
template <int N, typename A, bool kCentered>
__device__ void store_gradient(const NormOperands<A, kCentered>& in, int64_t at, const Floats<N>& dy,
                               const Floats<N>& normal, const Floats<N>& weight, const Floats<N>& earlier,
                               RowSums<kCentered> averages, float rstd) {
  Floats<N> out;
#pragma unroll
  for (int i = 0; i < N; ++i)
    out[i] = rstd * (dy[i] * weight[i] - averages.g - normal[i] * averages.gn) + earlier[i];
  store<N>(in.dx + at, out);
}

// Sums of a row over the warps of its group, which are a power of two or not; groups of a block go in step.
// Double-buffered, so that one barrier is enough.
class GroupSums {
 public:
  __device__ explicit GroupSums(float* scratch) : scratch_(scratch) {}

  template <bool kCentered>
  __device__ RowSums<kCentered> reduce(RowSums<kCentered> sums) {
    if constexpr (kCentered) sums.g = reduce_warp<Sum>(sums.g);
    sums.gn = reduce_warp<Sum>(sums.gn);
    const int warps = blockDim.x / kWarp;
    if (warps == 1) return sums;
    float* of_warps = scratch_ + 2 * warps * (blockDim.y * buffer_ + threadIdx.y);
    buffer_ ^= 1;
    if (threadIdx.x % kWarp == 0) {
      of_warps[2 * (threadIdx.x / kWarp)] = sums.g;
      of_warps[2 * (threadIdx.x / kWarp) + 1] = sums.gn;
    }
    __syncthreads();
    RowSums<kCentered> total;
    for (int w = 0; w < warps; ++w) {
      total.g += of_warps[2 * w];
      total.gn += of_warps[2 * w + 1];
    }
    return total;
  }

 private:
  float* scratch_;
  int buffer_ = 0;
};

// Block (x, y): y groups, each a row at a time; thread x of a group has vectors x, x + blockDim.x, ... of the
// row.
template <typename A, int N, bool kCentered, int kVectors>
__global__ void __launch_bounds__(kThreads)
    backward_and_sums(const NormOperands<A, kCentered> in, float* partials) {
  constexpr int kElements = N * kVectors;
  RECOLLECT_DYNAMIC_SHARED(scratch, float);
  RECOLLECT_SHARED(of_warps, float[4 * kThreads / kWarp]);
  const float scale = 1.0f / static_cast<float>(in.width);
  float dweight[kElements] = {}, dbias[kElements] = {};
  GroupSums group(of_warps);
  const int64_t step = int64_t{gridDim.x} * blockDim.y;
  for (int64_t first = int64_t{blockIdx.x} * blockDim.y; first < in.rows; first += step) {
    const int64_t row = first + threadIdx.y;
    const bool valid = row < in.rows;
    const float mean = valid ? in.mean_of(row) : 0.0f, rstd = valid ? in.rstd[row] : 0.0f;
    Floats<N> dy[kVectors], normal[kVectors], weight[kVectors], earlier[kVectors];
    RowSums<kCentered> sums;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int64_t c = (threadIdx.x + v * int64_t{blockDim.x}) * N, at = row * in.width + c;
      const bool mine = valid && c < in.width;
      dy[v] = mine ? load<N>(in.dy + at) : Floats<N>{};
      normal[v] = normalized(mine ? load<N>(in.x + at) : Floats<N>{}, mean, rstd);
      earlier[v] = mine && in.add ? load<N>(in.add + at) : Floats<N>{};
      weight[v] = mine ? in.template scale<N>(c) : Floats<N>{};
      sums.add(dy[v], normal[v], weight[v]);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        dweight[v * N + i] += dy[v][i] * normal[v][i];
        if constexpr (kCentered) dbias[v * N + i] += dy[v][i];
      }
    }
    RowSums<kCentered> averages = group.reduce(sums);
    averages.g *= scale;
    averages.gn *= scale;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int64_t c = (threadIdx.x + v * int64_t{blockDim.x}) * N;
      if (valid && c < in.width)
        store_gradient(in, row * in.width + c, dy[v], normal[v], weight[v], earlier[v], averages, rstd);
    }
  }
  sum_over_rows<kElements>(dweight, scratch);
  if constexpr (kCentered) sum_over_rows<kElements>(dbias, scratch);
  if (threadIdx.y > 0) return;
  float* to = partials + int64_t{blockIdx.x} * in.width;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int64_t c = (threadIdx.x + v * int64_t{blockDim.x}) * N;
    if (c >= in.width) continue;
    Floats<N> w, b;
#pragma unroll
    for (int i = 0; i < N; ++i) w[i] = dweight[v * N + i], b[i] = dbias[v * N + i];
    store<N>(to + c, w);
    if constexpr (kCentered) store<N>(to + int64_t{gridDim.x} * in.width + c, b);
  }
}

// A row per block, whatever its width.
template <typename A, int N, bool kCentered>
__global__ void __launch_bounds__(kThreads) backward_row(const NormOperands<A, kCentered> in) {
  const int64_t row = blockIdx.x, begin = row * in.width, step = blockDim.x * N;
  const float mean = in.mean_of(row), rstd = in.rstd[row], scale = 1.0f / static_cast<float>(in.width);
  RowSums<kCentered> sums;
  for (int64_t c = threadIdx.x * N; c < in.width; c += step)
    sums.add(load<N>(in.dy + begin + c), normalized(load<N>(in.x + begin + c), mean, rstd),
             in.template scale<N>(c));
  RowSums<kCentered> averages;
  if constexpr (kCentered) averages.g = reduce_block<Sum>(sums.g, 0.0f) * scale;
  averages.gn = reduce_block<Sum>(sums.gn, 0.0f) * scale;
  for (int64_t c = threadIdx.x * N; c < in.width; c += step) {
    const int64_t at = begin + c;
    const Floats<N> earlier = in.add ? load<N>(in.add + at) : Floats<N>{};
    store_gradient(in, at, load<N>(in.dy + at), normalized(load<N>(in.x + at), mean, rstd),
                   in.template scale<N>(c), earlier, averages, rstd);
  }
}

// The gradients of weight and bias alone.
template <typename A, int N, bool kCentered>
struct ParameterBody {
  using Columns = OneVector<N>;
  static constexpr int kSums = kCentered ? 2 : 1, kRows = 1;
  struct Operands {
    Floats<N> dy, normal;
  };

  NormOperands<A, kCentered> in;

  __device__ int constants(int64_t) const { return 0; }
  __device__ Operands read(int64_t row, int64_t unit) const {
    const int64_t at = row * in.width + unit * N;
    return {load<N>(in.dy + at), normalized(load<N>(in.x + at), in.mean_of(row), in.rstd[row])};
  }
  __device__ void apply(int64_t, int64_t, int, const Operands& of_row, float (*sums)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      sums[0][i] += of_row.dy[i] * of_row.normal[i];
      if constexpr (kCentered) sums[1][i] += of_row.dy[i];
    }
  }
};

template <typename A, bool kCentered>
NormOperands<A, kCentered> operands(const KernelArgs& args, float offset) {
  constexpr std::size_t kAdd = kCentered ? 5 : 4;  // behind the statistics
  const bool add = args.in.size() > kAdd && args.in[kAdd].defined();
  return {.dy = args.in[0].as<A>(),
          .x = args.in[1].as<A>(),
          .weight = args.in[2].as<float>(),
          .mean = kCentered ? args.in[3].as<float>() : nullptr,
          .rstd = args.in[kAdd - 1].as<float>(),
          .add = add ? args.in[kAdd].as<A>() : nullptr,
          .dx = args.out[0].as<A>(),
          .rows = args.in[0].shape[0],
          .width = args.in[0].shape[1],
          .offset = offset};
}

// `partials` holds `count` rows for each parameter.
void deliver(const KernelArgs& args, const float* partials, int64_t count) {
  const int64_t width = args.in[0].shape[1];
  float* dweight = args.out[1].as<float>();
  if (args.out.size() > 2)
    finish_two_sums(partials, count, width, dweight, args.out[2].as<float>(), args.accumulate, args.stream);
  else
    finish_sums(partials, count, width, dweight, args.accumulate, args.stream);
}

template <typename A, int N, bool kCentered, int kVectors>
class NormBackward : public Kernel {
 public:
  NormBackward(const NormBackwardWorkspace& cut, double offset)
      : cut_(cut), offset_(static_cast<float>(offset)) {}
  std::size_t workspace_bytes() const override { return cut_.bytes(); }

  void run(const KernelArgs& args) override {
    float* partials = reinterpret_cast<float*>(args.workspace);
    const std::size_t shared = sizeof(float) * (cut_.groups - 1) * cut_.threads * N * kVectors;
    launch(backward_and_sums<A, N, kCentered, kVectors>, grid_of(cut_.blocks),
           dim3(cut_.threads, cut_.groups), shared, args.stream, operands<A, kCentered>(args, offset_),
           partials);
    deliver(args, partials, cut_.blocks);
  }

 private:
  NormBackwardWorkspace cut_;
  float offset_;
};

template <typename A, int N, bool kCentered>
class AnyNormBackward : public Kernel {
 public:
  AnyNormBackward(const NormBackwardWorkspace& cut, double offset)
      : cut_(cut), offset_(static_cast<float>(offset)) {}
  std::size_t workspace_bytes() const override { return cut_.bytes(); }

  void run(const KernelArgs& args) override {
    const NormOperands<A, kCentered> in = operands<A, kCentered>(args, offset_);
    float* partials = reinterpret_cast<float*>(args.workspace);
    // First, since dx may take the place of dy.
    run_walk(cut_.walk, ParameterBody<A, N, kCentered>{in}, in.rows, partials, args.stream);
    deliver(args, partials, cut_.walk.blocks);
    launch(backward_row<A, N, kCentered>, grid_of(in.rows), dim3(kThreads), 0, args.stream, in);
  }

 private:
  NormBackwardWorkspace cut_;
  float offset_;
};

template <bool kCentered>
KernelPointer make_norm_backward(const OpView& view, const char* kind) {
  const NormBackwardWorkspace cut(view, kCentered);
  const double offset = weight_offset(view.attributes());
  return with_row_vectors(view.in(1).dtype, view.in(1).shape[1], kind,
                          [&]<typename A, int N>() -> KernelPointer {
                            if constexpr (N > 1) {
                              if (cut.vectors == 1)
                                return std::make_unique<NormBackward<A, N, kCentered, 1>>(cut, offset);
                              if (cut.vectors == 2)
                                return std::make_unique<NormBackward<A, N, kCentered, 2>>(cut, offset);
                            }
                            return std::make_unique<AnyNormBackward<A, N, kCentered>>(cut, offset);
                          });
}

}  // namespace

void register_layer_norm_backward(KernelTable& table) {
  table.add("layer_norm_backward",
            [](const OpView& view) { return make_norm_backward<true>(view, "layer_norm_backward"); });
  table.add("rms_norm_backward",
            [](const OpView& view) { return make_norm_backward<false>(view, "rms_norm_backward"); });
}

}  // namespace recollect::cuda
