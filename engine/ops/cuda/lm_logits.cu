// Logits of the last row of x, in generation: each warp computes the dot product with one row of the head.
#include "engine/ops/cuda/row_kernel.h"
#include "engine/ops/lm_head.h"
#include "engine/runtime/cuda/reduce.h"

namespace recollect::cuda {

namespace {

constexpr int kWarps = 8;  // of a block

template <typename A, int N>
__global__ void __launch_bounds__(kWarp* kWarps)
    multiply_last_row(const A* __restrict__ x, const A* __restrict__ w, const int32_t* __restrict__ filled,
                      float* __restrict__ logits, int64_t rows, int64_t width, float cap) {
  const int64_t row = blockIdx.x * int64_t{kWarps} + threadIdx.y;
  if (row >= rows) return;
  const A *from = x + int64_t{filled[1] - 1} * width, *of_head = w + row * width;
  float sum = 0.0f;
  for (int64_t c = threadIdx.x * N; c < width; c += kWarp * N) {
    const Floats<N> a = load<N>(from + c), b = load<N>(of_head + c);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += a[i] * b[i];
  }
  sum = reduce_warp<Sum>(sum);
  if (threadIdx.x == 0) logits[row] = cap > 0.0f ? cap * tanhf(sum / cap) : sum;
}

template <typename A, int N>
class LmLogits : public Kernel {
 public:
  explicit LmLogits(const OpView& view)
      : rows_(view.in(1).shape[0]),
        width_(view.in(1).shape[1]),
        cap_(static_cast<float>(logit_cap(view.attributes()))) {}

  void run(const KernelArgs& args) override {
    launch(multiply_last_row<A, N>, grid_of(ceil_div(rows_, kWarps)), dim3(kWarp, kWarps), 0, args.stream,
           args.in[0].as<A>(), args.in[1].as<A>(), args.in[2].as<int32_t>(), args.out[0].as<float>(), rows_,
           width_, cap_);
  }

 private:
  int64_t rows_, width_;
  float cap_;
};

}  // namespace

void register_lm_logits(KernelTable& table) { add_row_kernel<LmLogits>(table, "lm_logits"); }

}  // namespace recollect::cuda
