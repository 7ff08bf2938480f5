// Attention to a cache: a block has one query of one head, and each of its warps every so-manieth key, with the
// maximum and the sum of exponentials so far; in the end the warps' parts are put together. In float arithmetic
// without tensor cores, since what it waits for is memory.
#include "engine/ops/cached_attention.h"

#include "engine/ops/cuda/row_kernel.h"
#include "engine/runtime/cuda/reduce.h"

namespace recollect::cuda {

namespace {

constexpr int kWarps = 4;  // of a block
constexpr int kThreads = 256;

template <typename A>
__global__ void __launch_bounds__(kThreads)
    keep_new_tokens(const A* __restrict__ kv, const int32_t* __restrict__ numbers, A* __restrict__ keys,
                    A* __restrict__ values, const AttentionShape shape, int64_t capacity) {
  const Filled filled(numbers);
  const int64_t at = blockIdx.x * int64_t{kThreads} + threadIdx.x, unit = blockIdx.y,
                token = at / shape.head_size, c = at % shape.head_size;
  if (token >= filled.added) return;
  const int64_t to = cache_at(shape, capacity, unit, filled.cached + token) + c;
  keys[to] = kv[shape.k_at(unit) + token * shape.kv_row + c];
  values[to] = kv[shape.v_at(unit) + token * shape.kv_row + c];
}

// A lane has the features lane, lane + 32, ... of a head: kEach of them at most.
template <typename A, int kEach>
__global__ void __launch_bounds__(kWarp* kWarps, 8)
    attend_to_cache(const A* __restrict__ q, const int32_t* __restrict__ numbers, const A* __restrict__ keys,
                    const A* __restrict__ values, A* __restrict__ out, const AttentionShape shape,
                    int64_t capacity) {
  RECOLLECT_SHARED(parts, float[kWarps][kEach + 1][kWarp]);
  RECOLLECT_SHARED(greatest, float[kWarps]);
  const Filled filled(numbers);
  const int64_t unit = blockIdx.x, query = blockIdx.y;
  const int lane = threadIdx.x, warp = threadIdx.y, size = static_cast<int>(shape.head_size);
  A* const to = out + shape.out_at(unit) + query * shape.out_row;
  if (query >= filled.added) {  // all threads of the block
    for (int c = warp * kWarp + lane; c < size; c += kWarps * kWarp) store_one(to + c, 0.0f);
    return;
  }
  const A* const from = q + shape.q_at(unit) + query * shape.q_row;
  const int64_t cache = cache_at(shape, capacity, shape.kv_unit(unit), 0), seen = filled.cached + query + 1,
                first = shape.first_seen(seen - 1, seen);
  float mine[kEach], o[kEach] = {}, max = -INFINITY, sum = 0.0f;
#pragma unroll
  for (int j = 0; j < kEach; ++j)
    mine[j] = lane + kWarp * j < size ? shape.scale * load_one(from + lane + kWarp * j) : 0.0f;
#pragma unroll 1
  for (int64_t key = first + warp; key < seen; key += kWarps) {
    const A *k = keys + cache + key * size, *v = values + cache + key * size;
    float score = 0.0f;
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      if (lane + kWarp * j < size) score += mine[j] * load_one(k + lane + kWarp * j);
    score = reduce_warp<Sum>(score);
    if (shape.cap > 0.0f) score = shape.cap * tanhf(score / shape.cap);
    const float top = fmaxf(max, score), correction = expf(max - top), weight = expf(score - top);
    max = top;
    sum = sum * correction + weight;
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      if (lane + kWarp * j < size) o[j] = o[j] * correction + weight * load_one(v + lane + kWarp * j);
  }
#pragma unroll
  for (int j = 0; j < kEach; ++j) parts[warp][j][lane] = o[j];
  parts[warp][kEach][lane] = sum;
  if (lane == 0) greatest[warp] = max;
  __syncthreads();
  if (warp > 0) return;
  float top = greatest[0], all = 0.0f, total[kEach] = {};
  for (int w = 1; w < kWarps; ++w) top = fmaxf(top, greatest[w]);
#pragma unroll 1
  for (int w = 0; w < kWarps; ++w) {
    const float share = expf(greatest[w] - top);  // 0 of a warp that has seen no key
    all += share * parts[w][kEach][lane];
#pragma unroll
    for (int j = 0; j < kEach; ++j) total[j] += share * parts[w][j][lane];
  }
#pragma unroll
  for (int j = 0; j < kEach; ++j)
    if (lane + kWarp * j < size) store_one(to + lane + kWarp * j, total[j] / all);
}

template <typename A, int kEach>
class CachedAttention : public Kernel {
 public:
  explicit CachedAttention(const OpView& view)
      : shape_(view, kCachedAttentionInputs), capacity_(view.out(1).shape[1]) {}

  void run(const KernelArgs& args) override {
    const AttentionRows in(args.in, kCachedAttentionInputs);
    const auto* filled = args.in[kFilledInput].as<int32_t>();
    A *keys = args.out[1].as<A>(), *values = args.out[2].as<A>();
    launch(keep_new_tokens<A>,
           grid_of(ceil_div(shape_.length * shape_.head_size, kThreads), shape_.kv_units()), dim3(kThreads),
           0, args.stream, in.kv.as<A>(), filled, keys, values, shape_, capacity_);
    launch(attend_to_cache<A, kEach>, grid_of(shape_.units(), shape_.length), dim3(kWarp, kWarps), 0,
           args.stream, in.q.as<A>(), filled, keys, values, args.out[0].as<A>(), shape_, capacity_);
  }

 private:
  AttentionShape shape_;
  int64_t capacity_;
};

template <typename A>
KernelPointer make_for_size(const OpView& view) {
  const int64_t size = view.attributes().integer("head_size");
  if (size <= kWarp) return std::make_unique<CachedAttention<A, 1>>(view);
  if (size <= 2 * kWarp) return std::make_unique<CachedAttention<A, 2>>(view);
  if (size <= 4 * kWarp) return std::make_unique<CachedAttention<A, 4>>(view);
  if (size <= 8 * kWarp) return std::make_unique<CachedAttention<A, 8>>(view);
  throw Error(ExitCode::kConfiguration,
              "the cuda backend has no cached_attention for heads of " + std::to_string(size),
              "heads have at most 256 features there");
}

}  // namespace

void register_cached_attention(KernelTable& table) {
  table.add("cached_attention", [](const OpView& view) {
    return with_activation_type(view.in(0).dtype, "cached_attention",
                                [&]<typename A>() -> KernelPointer { return make_for_size<A>(view); });
  });
}

}  // namespace recollect::cuda
