// Stores the new keys and values, then attends with one query of one head at a time to the keys that it sees.
#include "engine/ops/cached_attention.h"

#include <algorithm>
#include <cmath>

#include "engine/ops/reference/kernels.h"

namespace recollect::reference {
namespace {

template <typename T>
void keep_new_tokens(const AttentionShape& shape, const Filled& filled, const T* kv, const Tensor& keys,
                     const Tensor& values) {
  for (int64_t unit = 0; unit < shape.kv_units(); ++unit)
    for (int64_t token = 0; token < filled.added; ++token) {
      const int64_t to = cache_at(shape, keys.shape[1], unit, filled.cached + token);
      for (int64_t c = 0; c < shape.head_size; ++c) {
        keys.as<T>()[to + c] = kv[shape.k_at(unit) + token * shape.kv_row + c];
        values.as<T>()[to + c] = kv[shape.v_at(unit) + token * shape.kv_row + c];
      }
    }
}

struct Scores {
  double scale, cap;
};

// `weights`: room for `seen` weights.
template <typename T>
void attend_one(const T* q, const T* keys, const T* values, int64_t seen, int64_t size, const Scores& scores,
                double* weights, T* out) {
  double max = -INFINITY, sum = 0;
  for (int64_t key = 0; key < seen; ++key) {
    double score = 0;
    for (int64_t c = 0; c < size; ++c) score += double(q[c]) * keys[key * size + c];
    score *= scores.scale;
    weights[key] = scores.cap > 0 ? scores.cap * std::tanh(score / scores.cap) : score;
    max = std::fmax(max, weights[key]);
  }
  for (int64_t key = 0; key < seen; ++key) sum += std::exp(weights[key] - max);
  const double lse = max + std::log(sum);
  for (int64_t key = 0; key < seen; ++key) weights[key] = std::exp(weights[key] - lse);
  for (int64_t c = 0; c < size; ++c) {
    double value = 0;
    for (int64_t key = 0; key < seen; ++key) value += weights[key] * values[key * size + c];
    out[c] = static_cast<T>(value);
  }
}

template <typename T>
void cached_attention(const KernelArgs& args, const Attributes& attributes) {
  const AttentionRows rows(args.in, kCachedAttentionInputs);
  const AttentionShape shape(attributes, rows.q.shape[0], rows.kv.data == rows.q.data);
  const Filled filled(args.in[kFilledInput].as<int32_t>());
  const Tensor &keys = args.out[1], &values = args.out[2];
  keep_new_tokens(shape, filled, rows.kv.as<T>(), keys, values);
  for (int64_t unit = 0; unit < shape.units(); ++unit) {
    const int64_t cache = cache_at(shape, keys.shape[1], shape.kv_unit(unit), 0);
    for (int64_t query = 0; query < shape.length; ++query) {
      T* out = args.out[0].as<T>() + shape.out_at(unit) + query * shape.out_row;
      if (query >= filled.added) {
        std::fill_n(out, shape.head_size, T{});
        continue;
      }
      const int64_t end = filled.cached + query + 1, first = shape.first_seen(end - 1, end);
      const int64_t at = cache + first * shape.head_size;
      attend_one(rows.q.as<T>() + shape.q_at(unit) + query * shape.q_row, keys.as<T>() + at,
                 values.as<T>() + at, end - first, shape.head_size,
                 {score_scale(attributes), score_cap(attributes)}, reinterpret_cast<double*>(args.workspace),
                 out);
    }
  }
}

}  // namespace

void register_cached_attention(KernelTable& table) {
  add_kernel(table, "cached_attention", cached_attention<double>, cached_attention<float>,
             [](const OpView& view) { return view.out(1).shape[1] * sizeof(double); });
}

}  // namespace recollect::reference
