// Norms of single heads. A group of neighbouring threads computes a head; each thread has the same columns of all its
// heads: column sums stay in registers. They are added in a fixed order: heads of a thread, groups of a block, blocks.
#include "engine/ops/cuda/attention_workspace.h"
#include "engine/ops/cuda/kernels.h"
#include "engine/ops/cuda/workspaces.h"
#include "engine/runtime/cuda/element.h"
#include "engine/runtime/cuda/reduce.h"

namespace recollect::cuda {

namespace {

template <typename A>
struct NormedHeads {
  const A *dy, *x;               // dy: null in forward
  const float *weight, *second;  // second: null if all heads share one weight
  A* out;                        // y, which may overwrite x; or dx, which may overwrite dy
  int64_t rows, width;
  int size, first, all;
  float epsilon, offset;  // offset: of the weights

  __device__ int64_t items() const { return rows * all; }
  __device__ int64_t place(int64_t item) const { return item / all * width + item % all * size; }
  __device__ bool is_second(int64_t item) const { return item % all >= first; }
};

// blockDim is (lanes of a head, heads at a time). Returns the first column of a lane's vector.
template <int N>
__device__ int column_of(int vector) {
  return (threadIdx.x + vector * blockDim.x) * N;
}

template <int N, int kVectors, typename A>
__device__ void load_head(const A* from, int size, bool valid, Floats<N>* to) {
#pragma unroll
  for (int v = 0; v < kVectors; ++v)
    to[v] = valid && column_of<N>(v) < size ? load<N>(from + column_of<N>(v)) : Floats<N>{};
}

template <int N, int kVectors>
__device__ float rstd_of_head(const Floats<N>* x, int size, float epsilon) {
  float squares = 0.0f;
#pragma unroll
  for (int v = 0; v < kVectors; ++v)
#pragma unroll
    for (int i = 0; i < N; ++i) squares = fmaf(x[v][i], x[v][i], squares);
  return 1.0f / sqrtf(reduce_warp<Sum>(squares, blockDim.x) / static_cast<float>(size) + epsilon);
}

// Copies the columns after the heads of each row.
template <int N, typename A>
__device__ void copy_rest(const A* from, A* to, int64_t rows, int64_t width, int64_t heads) {
  if (from == to || heads == width) return;
  const int64_t units = (width - heads) / N, step = int64_t{gridDim.x} * blockDim.x * blockDim.y;
  for (int64_t i = (blockIdx.x * int64_t{blockDim.y} + threadIdx.y) * blockDim.x + threadIdx.x;
       i < rows * units; i += step) {
    const int64_t at = i / units * width + heads + i % units * N;
    store<N>(to + at, load<N>(from + at));
  }
}

template <typename A, int N, int kVectors>
__global__ void __launch_bounds__(HeadNormCut::kThreads) normalize_heads(const NormedHeads<A> in) {
  const int64_t step = int64_t{gridDim.x} * blockDim.y;
  for (int64_t first = int64_t{blockIdx.x} * blockDim.y; first < in.items(); first += step) {
    const int64_t item = first + threadIdx.y;
    const bool valid = item < in.items();
    const int64_t at = valid ? in.place(item) : 0;
    Floats<N> x[kVectors];
    load_head<N, kVectors>(in.x + at, in.size, valid, x);
    const float rstd = rstd_of_head<N, kVectors>(x, in.size, in.epsilon);
    const float* weight = in.is_second(item) ? in.second : in.weight;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int c = column_of<N>(v);
      if (!valid || c >= in.size) continue;
      const Floats<N> scale = load<N>(weight + c);
#pragma unroll
      for (int i = 0; i < N; ++i) x[v][i] = x[v][i] * rstd * (scale[i] + in.offset);
      store<N>(in.out + at + c, x[v]);
    }
  }
  copy_rest<N>(in.x, in.out, in.rows, in.width, int64_t{in.all} * in.size);
}

// With n = x * rstd and g = dy * (weight + offset): dx = rstd * (g - n * mean(g * n)); a weight's gradient
// is the sum of dy * n over its heads. `partials`: one row for each block and kind of heads.
template <typename A, int N, int kVectors>
__global__ void __launch_bounds__(HeadNormCut::kThreads)
    head_gradients(const NormedHeads<A> in, float* partials) {
  constexpr int kElements = N * kVectors;
  RECOLLECT_DYNAMIC_SHARED(scratch, float);
  float of_first[kElements] = {}, of_second[kElements] = {};
  const int64_t step = int64_t{gridDim.x} * blockDim.y;
  for (int64_t first = int64_t{blockIdx.x} * blockDim.y; first < in.items(); first += step) {
    const int64_t item = first + threadIdx.y;
    const bool valid = item < in.items(), second = in.is_second(item);
    const int64_t at = valid ? in.place(item) : 0;
    Floats<N> x[kVectors], dy[kVectors], weight[kVectors];
    load_head<N, kVectors>(in.x + at, in.size, valid, x);
    load_head<N, kVectors>(in.dy + at, in.size, valid, dy);
    load_head<N, kVectors>(second ? in.second : in.weight, in.size, valid, weight);
    const float rstd = rstd_of_head<N, kVectors>(x, in.size, in.epsilon);
    float sum = 0.0f;
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
#pragma unroll
      for (int i = 0; i < N; ++i) {
        x[v][i] *= rstd;
        const float product = dy[v][i] * x[v][i];
        weight[v][i] += in.offset;
        sum += product * weight[v][i];
        of_first[v * N + i] += second ? 0.0f : product;
        of_second[v * N + i] += second ? product : 0.0f;
      }
    const float average = reduce_warp<Sum>(sum, blockDim.x) / static_cast<float>(in.size);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int c = column_of<N>(v);
      if (!valid || c >= in.size) continue;
#pragma unroll
      for (int i = 0; i < N; ++i) x[v][i] = rstd * (dy[v][i] * weight[v][i] - x[v][i] * average);
      store<N>(in.out + at + c, x[v]);
    }
  }
  copy_rest<N>(in.dy, in.out, in.rows, in.width, int64_t{in.all} * in.size);
  sum_over_rows<kElements>(of_first, scratch);
  if (in.second) sum_over_rows<kElements>(of_second, scratch);
  if (threadIdx.y > 0) return;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int c = column_of<N>(v);
    if (c >= in.size) continue;
    Floats<N> a, b;
#pragma unroll
    for (int i = 0; i < N; ++i) a[i] = of_first[v * N + i], b[i] = of_second[v * N + i];
    store<N>(partials + int64_t{blockIdx.x} * in.size + c, a);
    if (in.second) store<N>(partials + (int64_t{gridDim.x} + blockIdx.x) * in.size + c, b);
  }
}

// `x`: the number of that input; dy is before it, the weights are after it.
template <typename A>
NormedHeads<A> normed_heads(const KernelArgs& args, const HeadNormCut& cut, std::size_t x) {
  return {.dy = x > 0 ? args.in[0].as<A>() : nullptr,
          .x = args.in[x].as<A>(),
          .weight = args.in[x + 1].as<float>(),
          .second = cut.kinds > 1 ? args.in[x + 2].as<float>() : nullptr,
          .out = args.out[0].as<A>(),
          .rows = args.in[x].shape[0],
          .width = args.in[x].shape[1],
          .size = static_cast<int>(cut.size),
          .first = static_cast<int>(cut.first),
          .all = static_cast<int>(cut.all),
          .epsilon = cut.epsilon,
          .offset = cut.offset};
}

template <typename A, int N, int kVectors>
class HeadNorm : public Kernel {
 public:
  explicit HeadNorm(const HeadNormCut& cut) : cut_(cut) {}
  void run(const KernelArgs& args) override {
    launch(normalize_heads<A, N, kVectors>, grid_of(cut_.blocks), dim3(cut_.lanes, cut_.groups), 0,
           args.stream, normed_heads<A>(args, cut_, 0));
  }

 private:
  HeadNormCut cut_;
};

template <typename A, int N, int kVectors>
class HeadNormBackward : public Kernel {
 public:
  explicit HeadNormBackward(const HeadNormCut& cut) : cut_(cut) {}
  std::size_t workspace_bytes() const override { return cut_.bytes(); }

  void run(const KernelArgs& args) override {
    float* partials = reinterpret_cast<float*>(args.workspace);
    const std::size_t shared = sizeof(float) * (cut_.groups - 1) * cut_.lanes * N * kVectors;
    launch(head_gradients<A, N, kVectors>, grid_of(cut_.blocks), dim3(cut_.lanes, cut_.groups), shared,
           args.stream, normed_heads<A>(args, cut_, 1), partials);
    for (int kind = 0; kind < cut_.kinds; ++kind)
      finish_sums(partials + kind * cut_.blocks * cut_.size, cut_.blocks, cut_.size,
                  args.out[1 + kind].as<float>(), args.accumulate, args.stream);
  }

 private:
  HeadNormCut cut_;
};

template <template <typename, int, int> class K>
void add_head_kernel(KernelTable& table, const char* kind, int x) {
  table.add(kind, [kind, x](const OpView& view) {
    const HeadNormCut cut(view, x);
    check_tiled_head(cut.size, kind);
    return with_activation_type(view.in(x).dtype, kind, [&]<typename A>() -> KernelPointer {
      constexpr int kWhole = kVector<A>, kMost = static_cast<int>(kLargestTiledHead) / (kWhole * kWarp);
      if (cut.vector == kWhole && cut.vectors == 1) return std::make_unique<K<A, kWhole, 1>>(cut);
      if (cut.vector == kWhole) return std::make_unique<K<A, kWhole, kMost>>(cut);
      if (cut.vectors == 1) return std::make_unique<K<A, 1, 1>>(cut);
      return std::make_unique<K<A, 1, 8>>(cut);
    });
  });
}

}  // namespace

void register_head_norm(KernelTable& table) {
  add_head_kernel<HeadNorm>(table, "head_norm", 0);
  add_head_kernel<HeadNormBackward>(table, "head_norm_backward", 1);
}

}  // namespace recollect::cuda
