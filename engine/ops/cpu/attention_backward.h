// Attention on CPUs, backward: the loops that attention.h has for forward, once for every kKeys keys, so that these
// and their gradients stay in a cache while all strips of queries meet them, whatever the length. Probabilities come
// again from lse, panel by panel of keys. With D the row sums of do * o (equal to those of the dropped
// probabilities' gradients times themselves), dS = P * (dP - D).
#pragma once

#include <limits>

#include "engine/ops/cpu/attention.h"

namespace recollect::cpu {

inline constexpr int64_t kAllKeys = std::numeric_limits<int64_t>::max() / 2;

// Its tiles also have
//   kKeys                       that strips meet at a time, a multiple of what a product adds up at once; or kAllKeys
//   load_keys(k, v, keys)       of one head, the first `keys` rows of either
//   load_queries(q, dout, rows)
//                               of one strip
//   whole_rows(rows)            rows of a block that its products read
//   multiply(block, key)        of the panel of keys from `key` on: scores and dP
//   scores(row, key), score_gradients(row, key)
//                               a row of either, which is made into dropped probabilities, and into dS
// both rows up to `end`, with zeros after it
//   add_query_gradients(block, from, to, more)
// adds those of keys [from, to) of the strip; `more`: to the sums of earlier keys
//   query_gradients(block, c)   Sums of the block when it has met all of them, from column c on
//   add_key_gradients(rows, from, to)
//                               of one strip to those of its keys [from, to)
//   store_key_gradients(dk, dv, keys)
template <typename Tiles>
class AttentionBackward : public AttentionKernel<Tiles> {
  using Base = AttentionKernel<Tiles>;
  using Base::dropout_, Base::shape_;
  using typename Base::A;
  using typename Base::Segment;

 public:
  explicit AttentionBackward(const OpView& view) : Base(view, kAttentionBackwardInputs) {}

 private:
  struct Unit {
    const A *q, *dout, *out;
    const float* lse;
    A* dq;
    int64_t number, first;  // the query head's number; the segment's first token
  };

  // A strip sees the keys from panel `first` to `all`; [from, to) are those of this pass.
  struct Keys {
    int64_t from, to, first, all;
  };

  int64_t units_of_segment() const override { return shape_.kv_heads; }

  // A key/value head with all query heads that share it, in order.
  void run_units(const KernelArgs& args, const AttentionRows& in, const Segment& segment, int64_t first,
                 int64_t last, Tiles& tiles) const override {
    const int64_t token = segment.first, keys = segment.keys;
    const A* kv = in.kv.as<A>() + token * shape_.kv_row;
    const AttentionRows gradients(args.out, 0, 1);
    A *dq = gradients.q.as<A>() + token * shape_.q_row, *dkv = gradients.kv.as<A>() + token * shape_.kv_row;
    for (int64_t head = first; head < last; ++head) {
      const int64_t kv_unit = segment.sample * shape_.kv_heads + head;
      const int64_t k = shape_.k_at(kv_unit), v = shape_.v_at(kv_unit);
      if (keys > 0) tiles.load_keys(kv + k, kv + v, keys);
      for (int64_t n = shape_.group_begin(kv_unit); n < shape_.group_begin(kv_unit + 1); ++n) {
        const int64_t out = shape_.out_at(n) + token * shape_.out_row;
        const Unit unit{.q = in.q.as<A>() + shape_.q_at(n) + token * shape_.q_row,
                        .dout = args.in[0].as<A>() + out,
                        .out = args.in[2].as<A>() + out,
                        .lse = args.in[3].as<float>() + n * shape_.length + token,
                        .dq = dq + shape_.q_at(n),
                        .number = n,
                        .first = token};
        if (keys > 0)
          run_unit(args, unit, segment, tiles);
        else
          clear(unit.dq, shape_.q_row, 0, segment.tokens);
      }
      if (keys > 0) tiles.store_key_gradients(dkv + k, dkv + v, keys);
      for (A* rows : {dkv + k, dkv + v}) clear(rows, shape_.kv_row, keys, segment.tokens);
    }
  }

  // One head of the tokens [first, last).
  void clear(A* rows, int64_t row, int64_t first, int64_t last) const {
    for (int64_t i = first; i < last; ++i) std::fill_n(rows + i * row, shape_.head_size, A{});
  }

  // A function of its own: within the loops above the compiler has too few registers for the rows of scores.
  [[gnu::noinline]] void run_unit(const KernelArgs& args, const Unit& unit, const Segment& segment,
                                  Tiles& tiles) const {
    for (int64_t from = 0; from < segment.keys; from += Tiles::kKeys)
      for (int64_t first = 0; first < segment.tokens; first += Tiles::kStrip) {
        const int64_t rows = std::min(Tiles::kStrip, segment.tokens - first);
        const int64_t panel = this->first_panel(first, segment.keys),
                      seen = shape_.seen(first + rows - 1, segment.keys);
        if (seen <= from || panel >= from + Tiles::kKeys) continue;
        const Keys keys{std::max(panel, from), std::min(seen, from + Tiles::kKeys), panel, seen};
        tiles.load_queries(unit.q + first * shape_.q_row, unit.dout + first * shape_.out_row, rows);
        for (int64_t at = 0; at < rows; at += Tiles::kBlock)
          run_block(args, unit, this->block(first + at, std::min(Tiles::kBlock, rows - at), at, segment.keys),
                    keys, tiles);
        tiles.add_key_gradients(rows, keys.from, keys.to);
      }
  }

  // Fills the strip's rows of probabilities and of dS, up to the last panel that any of them sees.
  void run_block(const KernelArgs& args, const Unit& unit, const Block& block, const Keys& keys,
                 Tiles& tiles) const {
    const DropoutMask mask = dropout_.mask(*args.state);
    struct Row {
      float dot;
      int64_t first, seen;
      uint64_t index;  // of dropout, at key 0
    } rows[Tiles::kBlock];
    for (int64_t i = 0; i < block.rows; ++i) {
      const int64_t query = block.query + i, at = query * shape_.out_row;
      rows[i] = {row_dot(unit.dout + at, unit.out + at, shape_.head_size),
                 shape_.first_seen(query, block.keys), shape_.seen(query, block.keys),
                 shape_.probability_at(*args.state, unit.number, unit.first + query) + unit.first};
    }
    for (int64_t key = keys.from; key < whole_panels(keys.to); key += kPanel) {
      if (key >= block.from && key < block.keys) tiles.multiply(block, key);
      for (int64_t i = 0; i < Tiles::whole_rows(block.rows); ++i) {
        const int64_t row = block.at + i;
        Valid valid{0, 0};
        if (i < block.rows && key >= block.from)
          valid = {std::max<int64_t>(rows[i].first - key, 0),
                   std::clamp<int64_t>(rows[i].seen - key, 0, kPanel)};
        if (valid.first >= valid.end)
          valid.end = 0;
        else
          gradient_row(mask, rows[i].index + key, unit.lse[block.query + i], rows[i].dot, valid,
                       tiles.score_scale(), tiles.scores(row, key), tiles.score_gradients(row, key));
        tiles.take_row(row, key, valid.end);
      }
    }
    tiles.add_query_gradients(block, keys.from, keys.to, keys.from > keys.first);
    if (keys.to < keys.all) return;
    float scales[Tiles::kBlock];
    std::fill_n(scales, Tiles::kBlock, shape_.scale);
    this->deliver(tiles.columns(), block.rows, scales, unit.dq + block.query * shape_.q_row, shape_.q_row,
                  [&](int64_t c) { return tiles.query_gradients(block, c); });
  }

  static float row_dot(const A* a, const A* b, int64_t n) {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < n; ++c) sum += load(a[c]) * load(b[c]);
    return sum;
  }

  // From scores and dP of one panel, in place: the dropped probabilities, and dS.
  void gradient_row(const DropoutMask& mask, uint64_t index, float lse, float dot, const Valid& valid,
                    float scale, float* scores, float* dp) const {
    float keep[kPanel];
    std::fill_n(keep, kPanel, 1.0f);
    if (mask.active()) mask.multipliers(index, valid.end, keep);
    const int64_t first = valid.first, last = valid.end, end = whole_vectors(last);
    if (shape_.cap > 0) return capped_gradient_row(keep, lse, dot, valid, scale, scores, dp);
#pragma omp simd
    for (int64_t j = 0; j < end; ++j) {
      const float probability = j >= first && j < last ? fast_exp(scores[j] * scale - lse) : 0.0f;
      scores[j] = probability * keep[j];
      dp[j] = probability * (dp[j] * keep[j] - dot);
    }
  }

  // The derivative of the cap: 1 - tanh^2.
  void capped_gradient_row(const float* keep, float lse, float dot, const Valid& valid, float scale,
                           float* scores, float* dp) const {
    const float cap = shape_.cap, inverse = scale / cap;
    const int64_t first = valid.first, last = valid.end, end = whole_vectors(last);
#pragma omp simd
    for (int64_t j = 0; j < end; ++j) {
      const float t = fast_tanh(scores[j] * inverse);
      const float probability = j >= first && j < last ? fast_exp(cap * t - lse) : 0.0f;
      scores[j] = probability * keep[j];
      dp[j] = probability * (dp[j] * keep[j] - dot) * (1.0f - t * t);
    }
  }
};

}  // namespace recollect::cpu
