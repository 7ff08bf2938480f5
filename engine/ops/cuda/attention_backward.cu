// Attention, backward: probabilities again from lse, once along queries (for dq), once along keys (for
// dk and dv). With P the probabilities, D dropout and dP = D(do v'): dS = P * (dP - delta), where delta, the
// sum of P * dP over a row, equals do . o.
#include "engine/ops/cuda/attention_fused.h"
#include "engine/ops/cuda/attention_tiles.h"

namespace recollect::cuda {

namespace {

template <typename A>
struct Gradients {
  const A *dout, *q, *kv, *out;
  const float* lse;
  const int32_t *lengths, *positions;
  A *dq, *dkv;
  float* delta;  // [units, length]
};

// A pair of tiles: of queries (q, scaled, and do), and of keys (k and v).
struct Pair {
  const float *q, *dout, *k, *v;
  int64_t first_query, first_key;
};

// What a thread needs of its queries, y + 16 i of the tile.
template <typename T>
struct Queries {
  float lse[T::kMicro], delta[T::kMicro];
  uint64_t index[T::kMicro];  // of dropout, at key 0

  __device__ Queries(const float* lses, const float* deltas, const AttentionShape& shape,
                     const RunState* state, int64_t unit, int64_t first) {
#pragma unroll
    for (int i = 0; i < T::kMicro; ++i) {
      const int64_t query = first + threadIdx.y + kSide * i;
      const bool valid = query < shape.length;
      lse[i] = valid ? lses[unit * shape.length + query] : 0.0f;
      delta[i] = valid && deltas ? deltas[unit * shape.length + query] : 0.0f;
      index[i] = shape.probability_at(*state, unit, query);
    }
  }
};

// This thread's dropped probabilities and dS of a pair of tiles; zero where there is no such pair.
template <typename T>
__device__ void score_gradients(const Pair& pair, const Queries<T>& queries, const AttentionShape& shape,
                                const TokenSegments& segments, int64_t keys, const DropoutMask& mask,
                                float (&dropped)[T::kMicro][T::kMicro],
                                float (&dscore)[T::kMicro][T::kMicro]) {
  T::multiply(pair.q, pair.k, shape.head_size, dropped);
  if (segments.positions)
    T::hide_others(segments, pair.first_query, pair.first_key, shape.length - pair.first_query,
                   shape.length - pair.first_key, dropped);
  T::multiply(pair.dout, pair.v, shape.head_size, dscore);
#pragma unroll
  for (int i = 0; i < T::kMicro; ++i) {
    const int64_t query = pair.first_query + threadIdx.y + kSide * i;
    const int64_t seen = query < shape.length ? shape.seen(query, keys) : 0;
    const uint32_t kept = T::kept(mask, queries.index[i] + pair.first_key);
#pragma unroll
    for (int j = 0; j < T::kMicro; ++j) {
      const int64_t key = pair.first_key + threadIdx.x + kSide * j;
      const float probability = key < seen ? expf(dropped[i][j] - queries.lse[i]) : 0.0f;
      const float multiplier = mask.multiplier(kept >> j & 1);
      dropped[i][j] = probability * multiplier;
      dscore[i][j] = probability * (dscore[i][j] * multiplier - queries.delta[i]);
    }
  }
}

template <typename T>
__device__ void put_scores(const float (&values)[T::kMicro][T::kMicro], float* scores) {
#pragma unroll
  for (int i = 0; i < T::kMicro; ++i)
#pragma unroll
    for (int j = 0; j < T::kMicro; ++j)
      scores[(threadIdx.y + kSide * i) * T::kScoreStride + threadIdx.x + kSide * j] = values[i][j];
}

// delta[i] of this thread's queries, and all of the tile's to memory.
template <typename A, typename T>
__device__ void make_delta(const Gradients<A>& in, const AttentionShape& shape, int64_t unit, int64_t first,
                           const float* dout, Queries<T>& queries) {
#pragma unroll
  for (int i = 0; i < T::kMicro; ++i) {
    const int row = threadIdx.y + kSide * i;
    const bool valid = first + row < shape.length;
    const A* out = in.out + shape.out_at(unit) + (first + row) * shape.out_row;
    float sum = 0.0f;
    for (int c = threadIdx.x; valid && c < shape.head_size; c += kSide)
      sum += dout[row * T::kStride + c] * load_one(out + c);
    queries.delta[i] = reduce_warp<Sum>(sum, kSide);
    if (valid && threadIdx.x == 0) in.delta[unit * shape.length + first + row] = queries.delta[i];
  }
}

// A block has a tile of queries and goes through the tiles of the keys that they see.
template <typename A, typename T>
__global__ void __launch_bounds__(kTileThreads, 1)
    query_gradients(const Gradients<A> in, const AttentionShape shape, const DropoutSite site,
                    const RunState* state) {
  RECOLLECT_DYNAMIC_SHARED(q, float);
  float *dout = q + T::kRowsFloats, *k = dout + T::kRowsFloats, *v = k + T::kRowsFloats;
  float* scores = v + T::kRowsFloats;
  const int64_t unit = blockIdx.x, kv_unit = shape.kv_unit(unit),
                first = (gridDim.y - 1 - blockIdx.y) * int64_t{T::kTile};
  const int64_t rows = shape.length - first, size = shape.head_size,
                keys = shape.keys(in.lengths, unit / shape.heads),
                end = shape.seen(first + T::kTile - 1, keys),
                last = first + (rows < T::kTile ? rows : T::kTile) - 1;
  const TokenSegments segments(in.positions, unit / shape.heads, shape.length);
  const DropoutMask mask(site, state);
  T::load_rows(in.q + shape.q_at(unit) + first * shape.q_row, shape.q_row, rows, size, shape.scale, q);
  T::load_rows(in.dout + shape.out_at(unit) + first * shape.out_row, shape.out_row, rows, size, 1.0f, dout);
  __syncthreads();
  Queries<T> queries(in.lse, nullptr, shape, state, unit, first);
  make_delta(in, shape, unit, first, dout, queries);

  float dq[T::kMicro][T::kColumns] = {};
  for (int64_t key = segments.first_tile(first, T::kTile); key < end; key += T::kTile) {
    if (segments.ends_before(key, last)) break;
    const int64_t at = key * shape.kv_row;
    __syncthreads();  // the last tile has been read
    T::load_rows(in.kv + shape.k_at(kv_unit) + at, shape.kv_row, keys - key, size, 1.0f, k);
    T::load_rows(in.kv + shape.v_at(kv_unit) + at, shape.kv_row, keys - key, size, 1.0f, v);
    __syncthreads();
    float dropped[T::kMicro][T::kMicro], dscore[T::kMicro][T::kMicro];
    score_gradients<T>({q, dout, k, v, first, key}, queries, shape, segments, keys, mask, dropped, dscore);
    put_scores<T>(dscore, scores);
    __syncwarp();  // a row of scores is made and read by the same half of a warp
    T::accumulate(scores, T::kScoreStride, 1, k, dq);
  }
  float scale[T::kMicro];
#pragma unroll
  for (int i = 0; i < T::kMicro; ++i) scale[i] = shape.scale;
  T::store_rows(dq, scale, in.dq + shape.q_at(unit) + first * shape.q_row, shape.q_row, rows, size);
}

// A block has a tile of keys and goes through the tiles of queries that see them, of one head after the other
// that shares them. After query_gradients, which makes delta.
template <typename A, typename T>
__global__ void __launch_bounds__(kTileThreads, 1)
    key_gradients(const Gradients<A> in, const AttentionShape shape, const DropoutSite site,
                  const RunState* state) {
  RECOLLECT_DYNAMIC_SHARED(q, float);
  float *dout = q + T::kRowsFloats, *k = dout + T::kRowsFloats, *v = k + T::kRowsFloats;
  float *p = v + T::kRowsFloats, *ds = p + T::kScoreFloats;
  const int64_t kv_unit = blockIdx.x, first = blockIdx.y * int64_t{T::kTile};
  const TokenSegments segments(in.positions, kv_unit / shape.kv_heads, shape.length);
  const int64_t rows = shape.length - first, size = shape.head_size, at = first * shape.kv_row,
                keys = shape.keys(in.lengths, kv_unit / shape.kv_heads),
                last = first + (rows < T::kTile ? rows : T::kTile) - 1,
                first_query = first >= keys  ? shape.length
                              : shape.causal ? first
                                             : segments.first_tile(first, T::kTile);
  const DropoutMask mask(site, state);
  T::load_rows(in.kv + shape.k_at(kv_unit) + at, shape.kv_row, keys - first, size, 1.0f, k);
  T::load_rows(in.kv + shape.v_at(kv_unit) + at, shape.kv_row, keys - first, size, 1.0f, v);

  float dk[T::kMicro][T::kColumns] = {}, dv[T::kMicro][T::kColumns] = {};
  const int64_t end = shape.group_begin(kv_unit + 1);
  for (int64_t unit = shape.group_begin(kv_unit); unit < end; ++unit) {
    for (int64_t query = first_query; query < shape.length; query += T::kTile) {
      if (segments.ends_before(query, last)) break;
      __syncthreads();  // the last tile has been read
      T::load_rows(in.q + shape.q_at(unit) + query * shape.q_row, shape.q_row, shape.length - query, size,
                   shape.scale, q);
      T::load_rows(in.dout + shape.out_at(unit) + query * shape.out_row, shape.out_row, shape.length - query,
                   size, 1.0f, dout);
      __syncthreads();
      float dropped[T::kMicro][T::kMicro], dscore[T::kMicro][T::kMicro];
      const Queries<T> queries(in.lse, in.delta, shape, state, unit, query);
      score_gradients<T>({q, dout, k, v, query, first}, queries, shape, segments, keys, mask, dropped,
                         dscore);
      put_scores<T>(dropped, p);
      put_scores<T>(dscore, ds);
      __syncthreads();
      T::accumulate(p, 1, T::kScoreStride, dout, dv);
      T::accumulate(ds, 1, T::kScoreStride, q, dk);
    }
  }
  float one[T::kMicro];
#pragma unroll
  for (int i = 0; i < T::kMicro; ++i) one[i] = 1.0f;
  T::store_rows(dk, one, in.dkv + shape.k_at(kv_unit) + at, shape.kv_row, rows, size);
  T::store_rows(dv, one, in.dkv + shape.v_at(kv_unit) + at, shape.kv_row, rows, size);
}

template <typename A, typename T>
class AttentionBackward : public Kernel {
 public:
  explicit AttentionBackward(const OpView& view)
      : shape_(view, kAttentionBackwardInputs), site_(view.attributes()) {}

  std::size_t workspace_bytes() const override { return tiled_backward_bytes(shape_); }

  void prepare(const KernelArgs&) override {
    allow_shared(query_gradients<A, T>, shared(1));
    allow_shared(key_gradients<A, T>, shared(2));
  }

  void run(const KernelArgs& args) override {
    const AttentionRows rows(args.in, kAttentionBackwardInputs), gradients(args.out, 0, 1);
    const Gradients<A> in{.dout = args.in[0].as<A>(),
                          .q = rows.q.as<A>(),
                          .kv = rows.kv.as<A>(),
                          .out = args.in[2].as<A>(),
                          .lse = args.in[3].as<float>(),
                          .lengths = rows.lengths,
                          .positions = rows.positions,
                          .dq = gradients.q.as<A>(),
                          .dkv = gradients.kv.as<A>(),
                          .delta = reinterpret_cast<float*>(args.workspace)};
    const int64_t tiles = ceil_div(shape_.length, T::kTile);
    const dim3 block(kSide, kSide);
    launch(query_gradients<A, T>, grid_of(shape_.units(), tiles), block, shared(1), args.stream, in, shape_,
           site_, args.device_state);
    launch(key_gradients<A, T>, grid_of(shape_.kv_units(), tiles), block, shared(2), args.stream, in, shape_,
           site_, args.device_state);
  }

 private:
  static constexpr std::size_t shared(int score_tiles) {
    return sizeof(float) * (4 * T::kRowsFloats + score_tiles * T::kScoreFloats);
  }
  AttentionShape shape_;
  DropoutSite site_;
};

KernelPointer make_attention_backward(const OpView& view) {
  return with_tiling(view, view.in(1).dtype, "attention_backward",
                     [&]<typename A, typename T>() -> KernelPointer {
                       return std::make_unique<AttentionBackward<A, T>>(view);
                     });
}

}  // namespace

void register_attention_backward(KernelTable& table, Libraries* libraries) {
  table.add("attention_backward", [libraries](const OpView& view) {
    KernelPointer fused = make_fused_attention_backward(view, libraries);
    return fused ? std::move(fused) : make_attention_backward(view);
  });
}

}  // namespace recollect::cuda
