// Elementwise ops that know no columns: addition, and dropout alone.
#include "engine/ops/cuda/dropout.h"
#include "engine/ops/cuda/element.h"
#include "engine/ops/cuda/kernels.h"

namespace recollect::cuda {

namespace {

constexpr int kThreads = 256;

__device__ int64_t thread_index() { return blockIdx.x * int64_t{kThreads} + threadIdx.x; }

// One vector per thread; the last thread takes what is left, element by element.
template <typename A>
__global__ void __launch_bounds__(kThreads) add_elements(const A* a, const A* b, A* y, int64_t count) {
  constexpr int N = kVector<A>;
  const int64_t at = thread_index() * N;
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

// For rows of whole groups of 64 elements: a thread takes those of N Philox blocks.
template <typename A>
__global__ void __launch_bounds__(kThreads)
    drop_groups(const A* x, A* y, int64_t groups, int64_t width, DropoutSite site, TokenOrigin origin,
                const RunState* state) {
  constexpr int N = kVector<A>, kUnits = 16 / N;
  const int64_t unit = thread_index(), group = unit / kUnits, part = unit % kUnits;
  if (group >= groups) return;
  const DropoutMask mask(site, state);
  const int64_t at = group * 64 + part * N;
  Floats<N> values[4];
#pragma unroll
  for (int w = 0; w < 4; ++w) values[w] = load<N>(x + at + 16 * w);
  if (mask.active()) {
    const uint64_t block = (origin.first_row(state) * width / 64 + group) * 16 + part * N;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const uint32_t kept = mask.keeps_of_block(block + i);
#pragma unroll
      for (int w = 0; w < 4; ++w) values[w][i] *= mask.multiplier(kept >> w & 1);
    }
  }
#pragma unroll
  for (int w = 0; w < 4; ++w) store<N>(y + at + 16 * w, values[w]);
}

template <typename A>
__global__ void __launch_bounds__(kThreads)
    drop_elements(const A* x, A* y, int64_t count, int64_t width, DropoutSite site, TokenOrigin origin,
                  const RunState* state) {
  const int64_t at = thread_index();
  if (at >= count) return;
  const DropoutMask mask(site, state);
  const float value = load_one(x + at);
  const bool kept = !mask.active() || mask.keeps(origin.first_row(state) * width + at);
  store_one(y + at, value * mask.multiplier(kept));
}

template <typename A>
class Dropout : public Kernel {
 public:
  explicit Dropout(const OpView& view)
      : site_(view.attributes()),
        origin_(view.attributes()),
        count_(view.in(0).shape.elements()),
        width_(view.in(0).shape[1]) {}

  void run(const KernelArgs& args) override {
    const A* x = args.in[0].as<A>();
    A* y = args.out[0].as<A>();
    if (width_ % 64 == 0) {
      const int64_t units = count_ / (4 * kVector<A>);
      launch(drop_groups<A>, grid_of(ceil_div(units, kThreads)), dim3(kThreads), 0, args.stream, x, y,
             count_ / 64, width_, site_, origin_, args.device_state);
    } else {
      launch(drop_elements<A>, grid_of(ceil_div(count_, kThreads)), dim3(kThreads), 0, args.stream, x, y,
             count_, width_, site_, origin_, args.device_state);
    }
  }

 private:
  DropoutSite site_;
  TokenOrigin origin_;
  int64_t count_, width_;
};

}  // namespace

KernelPointer make_add(const OpView& view) {
  return with_activation_type(view.in(0).dtype, "add",
                              [&]<typename A>() -> KernelPointer { return std::make_unique<Add<A>>(view); });
}

KernelPointer make_dropout(const OpView& view) {
  return with_activation_type(view.in(0).dtype, "dropout", [&]<typename A>() -> KernelPointer {
    return std::make_unique<Dropout<A>>(view);
  });
}

}  // namespace recollect::cuda
