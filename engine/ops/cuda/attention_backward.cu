// Attention, backward: probabilities again from lse, once along queries (for dq), once along keys (for
// dk and dv). With P the probabilities, D dropout and dP = D(do v'): dS = P * (dP - delta), where delta, the
// sum of P * dP over a row, equals do . o.
#include "engine/ops/cuda/attention_fused.h"
#include "engine/ops/cuda/attention_tiles.h"
#include "engine/runtime/cuda/reduce.h"

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

// lse[i], to the base of 2, and delta[i] of this thread's queries; the tile's deltas to memory too.
template <typename A, typename T>
__device__ void make_delta(const Gradients<A>& in, const AttentionShape& shape, int64_t unit, int64_t first,
                           const float* dout, float (&lse)[T::kM], float (&delta)[T::kM]) {
#pragma unroll
  for (int i = 0; i < T::kM; ++i) {
    const int row = tile_y() + kDown * i;
    const bool valid = first + row < shape.length;
    const A* out = in.out + shape.out_at(unit) + (first + row) * shape.out_row;
    float sum = 0.0f;
    for (int piece = tile_x(); valid && 4 * piece < shape.head_size; piece += kAcross)
      for (int e = 0; e < 4 && 4 * piece + e < shape.head_size; ++e)
        sum += dout[piece_at<T::kWidth>(row, piece) + e] * load_one(out + 4 * piece + e);
    delta[i] = reduce_across<Sum>(sum);
    lse[i] = valid ? in.lse[unit * shape.length + first + row] * kLog2E : 0.0f;
    if (valid && tile_x() == 0) in.delta[unit * shape.length + first + row] = delta[i];
  }
}

// A block has a tile of queries and goes through the tiles of the keys that they see. While keys are read values are
// brought, and the other way round.
template <typename A, typename T>
__global__ void __launch_bounds__(kTileThreads, 2)
    query_gradients(const Gradients<A> in, const AttentionShape shape, const DropoutSite site,
                    const RunState* state) {
  RECOLLECT_DYNAMIC_SHARED(q, float);
  float *dout = q + T::kRowFloats, *k = dout + T::kRowFloats, *v = k + T::kColumnFloats,
        *ds = v + T::kColumnFloats;
  const int64_t unit = blockIdx.x, kv_unit = shape.kv_unit(unit), sample = unit / shape.heads,
                size = shape.head_size;
  const int length = static_cast<int>(shape.length), keys = static_cast<int>(shape.keys(in.lengths, sample)),
            first = static_cast<int>(gridDim.y - 1 - blockIdx.y) * T::kRows, rows = length - first,
            last = first + (rows < T::kRows ? rows : T::kRows) - 1,
            end = seen_from(shape, first + T::kRows - 1, keys, 0);
  const TokenSegments segments(in.positions, sample, shape.length);
  const ProbabilityMask mask(shape, site, state, unit);
  const A *k_rows = in.kv + shape.k_at(kv_unit), *v_rows = in.kv + shape.v_at(kv_unit);
  int key = first_tile_of_keys(shape, segments, first, keys, T::kColumns);
  bool more = key < end && !segments.ends_before(key, last);
  if (more) T::bring(v_rows + key * shape.kv_row, shape.kv_row, keys - key, size, v);
  __pipeline_commit();
  T::hold(in.q + shape.q_at(unit) + first * shape.q_row, shape.q_row, rows, size, shape.scale * kLog2E, q);
  T::hold(in.dout + shape.out_at(unit) + first * shape.out_row, shape.out_row, rows, size, 1.0f, dout);
  __syncthreads();
  float lse[T::kM], delta[T::kM];
  make_delta<A, T>(in, shape, unit, first, dout, lse, delta);

  typename T::Out dq = {};
  while (more) {
    __pipeline_wait_prior(0);
    __syncthreads();  // values are there, keys have been read
    T::bring(k_rows + key * shape.kv_row, shape.kv_row, keys - key, size, k);
    __pipeline_commit();
    typename T::Scores score, dscore;
    T::multiply(dout, v, dscore);
    const int next = key + T::kColumns;
    more = next < end && !segments.ends_before(next, last);
    __pipeline_wait_prior(0);
    __syncthreads();  // keys are there, values have been read
    if (more) T::bring(v_rows + next * shape.kv_row, shape.kv_row, keys - next, size, v);
    __pipeline_commit();
    T::multiply(q, k, score);
    T::cap_scores(shape.cap, score);
    if (segments.positions) T::hide_others(segments, first, key, rows, keys - key, score);
    T::hide_unseen_columns(shape, first, key, keys, score);
#pragma unroll
    for (int i = 0; i < T::kM; ++i)
      T::multiply_columns(mask, first + tile_y() + kDown * i, key, [&](int j, float multiplier) {
        dscore[i][j] = exp2f(score[i][j] - lse[i]) * (dscore[i][j] * multiplier - delta[i]) *
                       T::slope_of_cap(shape.cap, score[i][j]);
      });
    T::put(dscore, ds);
    __syncwarp();
    T::accumulate(ds, k, dq);
    key = next;
  }
  float scale[T::kM];
  T::fill(shape.scale, scale);
  T::store_rows(dq, scale, in.dq + shape.q_at(unit) + first * shape.q_row, shape.q_row, rows, size);
}

// From which query to which a tile of keys is seen, tile by tile.
struct QueryRange {
  int first, end;
};
template <typename T>
__device__ QueryRange queries_of(const AttentionShape& shape, const TokenSegments& segments, int key,
                                 int keys) {
  const int length = static_cast<int>(shape.length), rows = length - key,
            last = key + (rows < T::kRows ? rows : T::kRows) - 1;
  if (key >= keys) return {0, 0};
  const int of_window = static_cast<int>(shape.first_query(key)) / T::kColumns * T::kColumns,
            of_segment = static_cast<int>(segments.first_tile(key, T::kColumns)),
            first = shape.causal || of_segment < of_window ? of_window : of_segment,
            seen_before = static_cast<int>(shape.end_of_queries(last < keys ? last : keys - 1, keys, length));
  if (!segments.positions) return {first, seen_before};
  int end = first;
  while (end < seen_before && !segments.ends_before(end, last)) end += T::kColumns;
  return {first, end};
}

// Numbers of a tile's queries: of lse or delta.
template <typename T>
__device__ void bring_numbers(const float* from, int count, float* to) {
  const int i = threadIdx.x;
  if (i >= T::kColumns) return;
  if (i < count)
    __pipeline_memcpy_async(to + i, from + i, sizeof(float));
  else
    to[i] = 0.0f;
}

// A block has a tile of keys and goes through the tiles of queries that see them. While queries are read their do are
// brought, and the other way round. After query_gradients, which makes delta.
template <typename A, typename T>
__global__ void __launch_bounds__(kTileThreads, 2)
    key_gradients(const Gradients<A> in, const AttentionShape shape, const DropoutSite site,
                  const RunState* state) {
  RECOLLECT_DYNAMIC_SHARED(k, float);
  float *v = k + T::kRowFloats, *q = v + T::kRowFloats, *dout = q + T::kColumnFloats,
        *p = dout + T::kColumnFloats;
  float *lse = p + T::kScoreFloats, *delta = lse + T::kColumns;
  const int64_t kv_unit = blockIdx.x, sample = kv_unit / shape.kv_heads, size = shape.head_size,
                begin = shape.group_begin(kv_unit), end = shape.group_begin(kv_unit + 1);
  const int first = static_cast<int>(blockIdx.y) * T::kRows, length = static_cast<int>(shape.length),
            keys = static_cast<int>(shape.keys(in.lengths, sample)), rows = length - first;
  const TokenSegments segments(in.positions, sample, shape.length);
  ProbabilityMask mask(shape, site, state, begin);
  // Of the head that is dealt with: one after the other that shares the keys.
  const A *q_rows = in.q + shape.q_at(begin), *dout_rows = in.dout + shape.out_at(begin);
  const float *lse_rows = in.lse + begin * length, *delta_rows = in.delta + begin * length;
  const QueryRange range = queries_of<T>(shape, segments, first, keys);
  const auto bring_dout = [&](int query) {
    T::bring(dout_rows + query * shape.out_row, shape.out_row, length - query, size, dout);
    bring_numbers<T>(delta_rows + query, length - query, delta);
  };
  int query = range.first, heads = range.first < range.end ? static_cast<int>(end - begin) : 0;
  if (heads > 0) bring_dout(query);
  __pipeline_commit();
  const int64_t at = first * shape.kv_row;
  T::hold(in.kv + shape.k_at(kv_unit) + at, shape.kv_row, keys - first, size, shape.scale * kLog2E, k);
  T::hold(in.kv + shape.v_at(kv_unit) + at, shape.kv_row, keys - first, size, 1.0f, v);

  typename T::Out dk = {}, dv = {};
  while (heads > 0) {
    __pipeline_wait_prior(0);
    __syncthreads();  // do is there, queries have been read
    T::bring(q_rows + query * shape.q_row, shape.q_row, length - query, size, q);
    bring_numbers<T>(lse_rows + query, length - query, lse);
    __pipeline_commit();
    typename T::Scores score, dscore;
    T::multiply(v, dout, dscore);
    __pipeline_wait_prior(0);
    __syncthreads();  // queries are there
    T::multiply(k, q, score);
    T::cap_scores(shape.cap, score);
    if (segments.positions) T::hide_others(segments, first, query, rows, length - query, score);
    T::hide_unseen_rows(shape, query, first, keys, score);
#pragma unroll
    for (int j = 0; j < T::kN; ++j) {
      const int column = tile_x() + kAcross * j;
      const float base = lse[column] * kLog2E, sum = delta[column];
      T::multiply_rows(mask, query + column, first, [&](int i, float multiplier) {
        const float probability = exp2f(score[i][j] - base);
        const float slope = T::slope_of_cap(shape.cap, score[i][j]);
        score[i][j] = probability * multiplier;
        dscore[i][j] = probability * (dscore[i][j] * multiplier - sum) * slope;
      });
    }
    T::put(score, p);
    __syncwarp();
    T::accumulate(p, dout, dv);
    __syncthreads();  // do has been read
    query += T::kColumns;
    if (query >= range.end) {
      query = range.first, --heads;
      q_rows += size, dout_rows += size, lse_rows += length, delta_rows += length;
      mask.next_unit();
    }
    if (heads > 0) bring_dout(query);
    __pipeline_commit();
    T::put(dscore, p);
    __syncwarp();
    T::accumulate(p, q, dk);
  }
  float scale[T::kM];
  T::fill(shape.scale, scale);
  T::store_rows(dk, scale, in.dkv + shape.k_at(kv_unit) + at, shape.kv_row, rows, size);
  T::fill(1.0f, scale);
  T::store_rows(dv, scale, in.dkv + shape.v_at(kv_unit) + at, shape.kv_row, rows, size);
}

template <typename A, typename T>
class AttentionBackward : public Kernel {
 public:
  explicit AttentionBackward(const OpView& view)
      : shape_(view, kAttentionBackwardInputs), site_(view.attributes()) {}

  std::size_t workspace_bytes() const override { return tiled_backward_bytes(shape_); }

  void prepare(const KernelArgs&) override {
    allow_shared(query_gradients<A, T>, kShared);
    allow_shared(key_gradients<A, T>, kKeyShared);
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
    const int64_t tiles = ceil_div(shape_.length, T::kRows);
    const dim3 block(kTileThreads);
    launch(query_gradients<A, T>, grid_of(shape_.units(), tiles), block, kShared, args.stream, in, shape_,
           site_, args.device_state);
    launch(key_gradients<A, T>, grid_of(shape_.kv_units(), tiles), block, kKeyShared, args.stream, in, shape_,
           site_, args.device_state);
  }

 private:
  static constexpr std::size_t kShared = sizeof(float) *
                                         (2 * T::kRowFloats + 2 * T::kColumnFloats + T::kScoreFloats),
                               kKeyShared = kShared + sizeof(float) * 2 * T::kColumns;
  AttentionShape shape_;
  DropoutSite site_;
};

KernelPointer make_attention_backward(const OpView& view) {
  return with_tiling(view, view.in(1).dtype, "attention_backward",
                     [&]<typename A, typename T>() -> KernelPointer {
                       return std::make_unique<AttentionBackward<A, typename T::Backward>>(view);
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
