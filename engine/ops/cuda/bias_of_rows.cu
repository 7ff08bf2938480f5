#include "engine/ops/cuda/bias_of_rows.h"

#include "engine/runtime/cuda/element.h"

namespace recollect::cuda {

namespace {

constexpr int kThreads = 256;

template <typename A>
__global__ void __launch_bounds__(kThreads)
    add_bias(const float* __restrict__ product, const float* __restrict__ bias, int64_t elements,
             int64_t width, A* __restrict__ out) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i < elements) store_one(out + i, load_one(product + i) + load_one(bias + i % width));
}

}  // namespace

void add_bias_of_rows(const float* product, const float* bias, int64_t width, const Tensor& out,
                      void* stream) {
  const int64_t elements = out.shape.elements();
  with_activation_type(out.dtype, "linear", [&]<typename A>() {
    launch(add_bias<A>, grid_of(ceil_div(elements, kThreads)), dim3(kThreads), 0, stream, product, bias,
           elements, width, out.as<A>());
  });
}

}  // namespace recollect::cuda
