// Attention, forward: a block has a tile of queries and goes through the tiles of the keys that they see,
// with the maximum and the sum of exponentials of every row so far. In float arithmetic without tensor cores:
// for parity, and for what cuDNN does not do, or is not asked to: several sequences in a sample.
#include "engine/ops/cuda/attention_fused.h"
#include "engine/ops/cuda/attention_tiles.h"

namespace recollect::cuda {

namespace {

template <typename A, typename T>
__global__ void __launch_bounds__(kTileThreads, T::kBlocks)
    attend(const A* __restrict__ q_rows, const A* __restrict__ kv_rows, const int32_t* __restrict__ lengths,
           const int32_t* __restrict__ positions, A* __restrict__ out, float* __restrict__ lse,
           const AttentionShape shape, const DropoutSite site, const RunState* state) {
  constexpr int kMicro = T::kMicro;
  RECOLLECT_DYNAMIC_SHARED(q, float);
  float *k = q + T::kRowsFloats, *v = k + T::kRowsFloats, *p = v + T::kRowsFloats;
  const int64_t unit = blockIdx.x, kv_unit = shape.kv_unit(unit),
                first = (gridDim.y - 1 - blockIdx.y) * int64_t{T::kTile};  // long rows first
  const int64_t rows = shape.length - first, size = shape.head_size,
                keys = shape.keys(lengths, unit / shape.heads), end = shape.seen(first + T::kTile - 1, keys),
                last = first + (rows < T::kTile ? rows : T::kTile) - 1;
  const TokenSegments segments(positions, unit / shape.heads, shape.length);
  const DropoutMask mask(site, state);
  T::load_rows(q_rows + shape.q_at(unit) + first * shape.q_row, shape.q_row, rows, size, shape.scale, q);

  float o[kMicro][T::kColumns] = {}, max[kMicro], sum[kMicro] = {};
#pragma unroll
  for (int i = 0; i < kMicro; ++i) max[i] = -INFINITY;
  for (int64_t key = segments.first_tile(first, T::kTile); key < end; key += T::kTile) {
    if (segments.ends_before(key, last)) break;
    const int64_t at = key * shape.kv_row;
    __syncthreads();  // the last tile has been read
    T::load_rows(kv_rows + shape.k_at(kv_unit) + at, shape.kv_row, keys - key, size, 1.0f, k);
    T::load_rows(kv_rows + shape.v_at(kv_unit) + at, shape.kv_row, keys - key, size, 1.0f, v);
    __syncthreads();
    float s[kMicro][kMicro];
    T::multiply(q, k, size, s);
    if (positions) T::hide_others(segments, first, key, rows, keys - key, s);
#pragma unroll
    for (int i = 0; i < kMicro; ++i) {
      const int64_t query = first + threadIdx.y + kSide * i, seen = shape.seen(query, keys);
      float greatest = max[i];
#pragma unroll
      for (int j = 0; j < kMicro; ++j) {
        if (key + threadIdx.x + kSide * j >= seen) s[i][j] = -INFINITY;
        greatest = fmaxf(greatest, s[i][j]);
      }
      greatest = reduce_warp<Max>(greatest, kSide);
      const float before = max[i];
      max[i] = greatest;
      if (greatest == -INFINITY) greatest = 0.0f;  // no key yet: all exponentials are zero
      const float correction = expf(before - greatest);
      const uint32_t kept = T::kept(mask, shape.probability_at(*state, unit, query) + key);
      float more = 0.0f;
#pragma unroll
      for (int j = 0; j < kMicro; ++j) {
        const float e = expf(s[i][j] - greatest);
        more += e;
        p[(threadIdx.y + kSide * i) * T::kScoreStride + threadIdx.x + kSide * j] =
            e * mask.multiplier(kept >> j & 1);
      }
      sum[i] = sum[i] * correction + reduce_warp<Sum>(more, kSide);
#pragma unroll
      for (int j = 0; j < T::kColumns; ++j) o[i][j] *= correction;
    }
    __syncwarp();  // a row of p is made and read by the same half of a warp
    T::accumulate(p, T::kScoreStride, 1, v, o);
  }
  float scale[kMicro];
#pragma unroll
  for (int i = 0; i < kMicro; ++i) {
    const bool seeing = sum[i] > 0.0f;  // padding sees nothing
    scale[i] = seeing ? 1.0f / sum[i] : 0.0f;
    const int row = threadIdx.y + kSide * i;
    if (threadIdx.x == 0 && row < rows)
      lse[unit * shape.length + first + row] = seeing ? max[i] + logf(sum[i]) : 0.0f;
  }
  T::store_rows(o, scale, out + shape.out_at(unit) + first * shape.out_row, shape.out_row, rows, size);
}

template <typename A, typename T>
class Attention : public Kernel {
 public:
  explicit Attention(const OpView& view) : shape_(view, kAttentionInputs), site_(view.attributes()) {}

  void prepare(const KernelArgs&) override { allow_shared(attend<A, T>, kShared); }

  void run(const KernelArgs& args) override {
    const AttentionRows in(args.in, kAttentionInputs);
    launch(attend<A, T>, grid_of(shape_.units(), ceil_div(shape_.length, T::kTile)), dim3(kSide, kSide),
           kShared, args.stream, in.q.as<A>(), in.kv.as<A>(), in.lengths, in.positions, args.out[0].as<A>(),
           args.out[1].as<float>(), shape_, site_, args.device_state);
  }

 private:
  static constexpr std::size_t kShared = sizeof(float) * (3 * T::kRowsFloats + T::kScoreFloats);
  AttentionShape shape_;
  DropoutSite site_;
};

KernelPointer make_attention(const OpView& view) {
  return with_tiling(view, view.in(0).dtype, "attention", [&]<typename A, typename T>() -> KernelPointer {
    return std::make_unique<Attention<A, T>>(view);
  });
}

}  // namespace

void register_attention(KernelTable& table, Libraries* libraries) {
  table.add("attention", [libraries](const OpView& view) {
    KernelPointer fused = make_fused_attention(view, libraries);
    return fused ? std::move(fused) : make_attention(view);
  });
}

}  // namespace recollect::cuda
