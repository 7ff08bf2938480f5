// Attention, forward: a block has a tile of queries and goes through the tiles of the keys that they see, with the
// maximum and the sum of exponentials of every row so far. In float arithmetic without tensor cores: for precision
// fp32, and where cuDNN is not used: several sequences in a sample, capped scores. Scores are logarithms to base 2.
#include "engine/ops/cuda/attention_fused.h"
#include "engine/ops/cuda/attention_tiles.h"
#include "engine/runtime/cuda/reduce.h"

namespace recollect::cuda {

namespace {

// What is known of a thread's rows so far.
template <typename T>
struct SoftmaxRows {
  float max[T::kM], sum[T::kM];
};

// Scores become exponentials, dropped ones zero; what was summed with a smaller maximum is corrected.
template <typename T>
__device__ void exponentials(const ProbabilityMask& mask, int first, int key, typename T::Scores& s,
                             SoftmaxRows<T>& rows, typename T::Out& o) {
#pragma unroll
  for (int i = 0; i < T::kM; ++i) {
    float greatest = rows.max[i];
#pragma unroll
    for (int j = 0; j < T::kN; ++j) greatest = fmaxf(greatest, s[i][j]);
    greatest = reduce_across<Max>(greatest);
    const float before = rows.max[i];
    rows.max[i] = greatest;
    if (greatest == -INFINITY) greatest = 0.0f;  // no key yet: all exponentials are zero
    const float correction = exp2f(before - greatest);
    float more = 0.0f;
#pragma unroll
    for (int j = 0; j < T::kN; ++j) {
      s[i][j] = exp2f(s[i][j] - greatest);
      more += s[i][j];
    }
    T::multiply_columns(mask, first + tile_y() + kDown * i, key,
                        [&](int j, float multiplier) { s[i][j] *= multiplier; });
    rows.sum[i] = rows.sum[i] * correction + reduce_across<Sum>(more);
#pragma unroll
    for (int j = 0; j < T::kOut; ++j) o[i][j] *= correction;
  }
}

// Keys and values have a tile each: while one is read, the other is brought.
template <typename A, typename T>
__global__ void __launch_bounds__(kTileThreads, 2)
    attend(const A* __restrict__ q_rows, const A* __restrict__ kv_rows, const int32_t* __restrict__ lengths,
           const int32_t* __restrict__ positions, A* __restrict__ out, float* __restrict__ lse,
           const AttentionShape shape, const DropoutSite site, const RunState* state) {
  RECOLLECT_DYNAMIC_SHARED(q, float);
  float *k = q + T::kRowFloats, *v = k + T::kColumnFloats, *p = v + T::kColumnFloats;
  const int64_t unit = blockIdx.x, kv_unit = shape.kv_unit(unit), sample = unit / shape.heads,
                size = shape.head_size;
  const int length = static_cast<int>(shape.length), keys = static_cast<int>(shape.keys(lengths, sample)),
            first = static_cast<int>(gridDim.y - 1 - blockIdx.y) * T::kRows,  // long rows first
      rows = length - first, last = first + (rows < T::kRows ? rows : T::kRows) - 1,
            end = seen_from(shape, first + T::kRows - 1, keys, 0);
  const TokenSegments segments(positions, sample, shape.length);
  const ProbabilityMask mask(shape, site, state, unit);
  const A *k_rows = kv_rows + shape.k_at(kv_unit), *v_rows = kv_rows + shape.v_at(kv_unit);
  T::hold(q_rows + shape.q_at(unit) + first * shape.q_row, shape.q_row, rows, size, shape.scale * kLog2E, q);

  typename T::Out o = {};
  SoftmaxRows<T> softmax = {};
  T::fill(-INFINITY, softmax.max);
  int key = first_tile_of_keys(shape, segments, first, keys, T::kColumns);
  bool more = key < end && !segments.ends_before(key, last);
  if (more) T::bring(k_rows + key * shape.kv_row, shape.kv_row, keys - key, size, k);
  __pipeline_commit();
  while (more) {
    __pipeline_wait_prior(0);
    __syncthreads();  // keys are there, values have been read
    T::bring(v_rows + key * shape.kv_row, shape.kv_row, keys - key, size, v);
    __pipeline_commit();
    typename T::Scores s;
    T::multiply(q, k, s);
    const int next = key + T::kColumns;
    more = next < end && !segments.ends_before(next, last);
    __syncthreads();  // keys have been read
    if (more) T::bring(k_rows + next * shape.kv_row, shape.kv_row, keys - next, size, k);
    __pipeline_commit();
    T::cap_scores(shape.cap, s);
    if (positions) T::hide_others(segments, first, key, rows, keys - key, s);
    T::hide_unseen_columns(shape, first, key, keys, s);
    exponentials<T>(mask, first, key, s, softmax, o);
    T::put(s, p);
    __pipeline_wait_prior(1);
    __syncthreads();  // values are there
    T::accumulate(p, v, o);
    key = next;
  }
  float scale[T::kM];
#pragma unroll
  for (int i = 0; i < T::kM; ++i) {
    const bool seeing = softmax.sum[i] > 0.0f;  // padding sees nothing
    scale[i] = seeing ? 1.0f / softmax.sum[i] : 0.0f;
    const int row = tile_y() + kDown * i;
    if (tile_x() == 0 && row < rows)
      lse[unit * shape.length + first + row] = seeing ? softmax.max[i] * kLn2 + logf(softmax.sum[i]) : 0.0f;
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
    launch(attend<A, T>, grid_of(shape_.units(), ceil_div(shape_.length, T::kRows)), dim3(kTileThreads),
           kShared, args.stream, in.q.as<A>(), in.kv.as<A>(), in.lengths, in.positions, args.out[0].as<A>(),
           args.out[1].as<float>(), shape_, site_, args.device_state);
  }

 private:
  static constexpr std::size_t kShared =
      sizeof(float) * (T::kRowFloats + 2 * T::kColumnFloats + T::kScoreFloats);
  AttentionShape shape_;
  DropoutSite site_;
};

KernelPointer make_attention(const OpView& view) {
  return with_tiling(view, view.in(0).dtype, "attention", [&]<typename A, typename T>() -> KernelPointer {
    return std::make_unique<Attention<A, typename T::Forward>>(view);
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
