// Attention to a cache on CPUs. A head's keys lie one behind the other, so that a query reads them as they come
// from memory. Every head is worked on by one thread, in one row of scores: its bits depend on nothing else.
#include "engine/ops/cached_attention.h"

#include <omp.h>

#include "engine/ops/cpu/kernels.h"
#include "engine/ops/cpu/simd_math.h"

namespace recollect::cpu {

namespace {

constexpr int64_t kPadded = 16;          // floats
constexpr int64_t kSmallWork = 1 << 16;  // products that no second thread is woken for

template <typename A>
class CachedAttention : public Kernel {
 public:
  explicit CachedAttention(const OpView& view)
      : shape_(view, kCachedAttentionInputs),
        capacity_(view.out(1).shape[1]),
        size_(padded(shape_.head_size)),
        row_(padded(capacity_) + 2 * size_),
        threads_(omp_get_max_threads()) {}

  std::size_t workspace_bytes() const override { return shape_.units() * row_ * sizeof(float); }

  void run(const KernelArgs& args) override {
    const AttentionRows in(args.in, kCachedAttentionInputs);
    const Filled filled(args.in[kFilledInput].as<int32_t>());
    A *keys = args.out[1].as<A>(), *values = args.out[2].as<A>();
    parallel_ranges(filled.added > 1 ? threads_ : 1, shape_.kv_units(),
                    [&](int64_t first, int64_t last, int) {
                      for (int64_t unit = first; unit < last; ++unit)
                        keep(in.kv.as<A>(), filled, unit, keys, values);
                    });
    const int64_t work = filled.added * (filled.cached + filled.added) * shape_.out_row;
    parallel_ranges(work < kSmallWork ? 1 : threads_, shape_.units(), [&](int64_t first, int64_t last, int) {
      for (int64_t unit = first; unit < last; ++unit) attend(args, in.q.as<A>(), filled, unit);
    });
  }

 private:
  static int64_t padded(int64_t n) { return (n + kPadded - 1) / kPadded * kPadded; }

  void keep(const A* kv, const Filled& filled, int64_t unit, A* keys, A* values) const {
    for (int64_t token = 0; token < filled.added; ++token) {
      const int64_t to = cache_at(shape_, capacity_, unit, filled.cached + token);
      std::copy_n(kv + shape_.k_at(unit) + token * shape_.kv_row, shape_.head_size, keys + to);
      std::copy_n(kv + shape_.v_at(unit) + token * shape_.kv_row, shape_.head_size, values + to);
    }
  }

  void attend(const KernelArgs& args, const A* q, const Filled& filled, int64_t unit) const {
    const int64_t cache = cache_at(shape_, capacity_, shape_.kv_unit(unit), 0), size = shape_.head_size;
    float* const weights = reinterpret_cast<float*>(args.workspace) + unit * row_;
    float *const query = weights + row_ - 2 * size_, *const sums = query + size_;
    for (int64_t token = 0; token < shape_.length; ++token) {
      A* out = args.out[0].as<A>() + shape_.out_at(unit) + token * shape_.out_row;
      if (token >= filled.added) {
        std::fill_n(out, size, A{});
        continue;
      }
      const A* from = q + shape_.q_at(unit) + token * shape_.q_row;
#pragma omp simd
      for (int64_t c = 0; c < size; ++c) query[c] = shape_.scale * load(from[c]);
      const int64_t end = filled.cached + token + 1, key = shape_.first_seen(end - 1, end), seen = end - key;
      const int64_t at = cache + key * size;
      const float inverse = 1.0f / weigh(query, args.out[1].as<A>() + at, seen, weights);
      add_up(weights, args.out[2].as<A>() + at, seen, sums);
      write_each(out, size, [&](int64_t c) { return sums[c] * inverse; });
    }
  }

  // Exponentials of the scores' distances from the greatest. Returns their sum.
  float weigh(const float* query, const A* keys, int64_t seen, float* weights) const {
    const int64_t size = shape_.head_size;
    for (int64_t key = 0; key < seen; ++key) {
      const A* k = keys + key * size;
      float score = 0.0f;
#pragma omp simd reduction(+ : score)
      for (int64_t c = 0; c < size; ++c) score += query[c] * load(k[c]);
      weights[key] = score;
    }
    if (shape_.cap > 0)
#pragma omp simd
      for (int64_t key = 0; key < seen; ++key)
        weights[key] = shape_.cap * fast_tanh(weights[key] / shape_.cap);
    const float top = greatest(weights, seen);
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t key = 0; key < seen; ++key) {
      weights[key] = fast_exp(weights[key] - top);
      sum += weights[key];
    }
    return sum;
  }

  void add_up(const float* weights, const A* values, int64_t seen, float* sums) const {
    const int64_t size = shape_.head_size;
    std::fill_n(sums, size, 0.0f);
    for (int64_t key = 0; key < seen; ++key) {
      const A* v = values + key * size;
      const float weight = weights[key];
#pragma omp simd
      for (int64_t c = 0; c < size; ++c) sums[c] += weight * load(v[c]);
    }
  }

  AttentionShape shape_;
  int64_t capacity_, size_, row_;  // size_: of a head, padded; row_: floats of a head's scratch
  int threads_;
};

}  // namespace

void register_cached_attention(KernelTable& table) { add_kernel<CachedAttention>(table, "cached_attention"); }

}  // namespace recollect::cpu
