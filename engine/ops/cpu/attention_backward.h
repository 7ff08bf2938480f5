// Causal attention on CPUs, backward: the loops that attention.h has for forward. Probabilities come again
// from lse, panel by panel of keys. With D the row sums of do * o (equal to those of the dropped
// probabilities' gradients times themselves), dS = P * (dP - D).
#pragma once

#include "engine/ops/cpu/attention.h"

namespace recollect::cpu {

// Its tiles also have
//   load_keys(k, v)             of one head: its first elements in qkv
//   load_queries(q, dout, rows)
//                               of one strip
//   whole_rows(rows)            rows of a block that its products read
//   multiply(block, key)        of the panel of keys from `key` on: scores and dP
//   scores(row, key), score_gradients(row, key)
//                               a row of either, which is made into dropped probabilities, and into dS
//   take_row(row, key, valid)   of both, with zeros beyond the valid ones
//   query_gradients(block, c)   Sums of the block, from column c on
//   add_key_gradients(first, rows)
//                               of one strip to dk and dv
//   store_key_gradients(dk, dv)
template <typename Tiles>
class AttentionBackward : public AttentionKernel<Tiles> {
  using Base = AttentionKernel<Tiles>;
  using Base::dropout_, Base::shape_;
  using typename Base::A;

 public:
  using Base::Base;

 private:
  struct Unit {
    const A *q, *dout, *out;
    const float* lse;
    A* dq;
    int64_t number;
  };

  void run_unit(const KernelArgs& args, int64_t number, Tiles& tiles) const override {
    const A* qkv = args.in[1].as<A>();
    A* dqkv = args.out[0].as<A>();
    const Unit unit{.q = qkv + shape_.qkv_at(number, 0),
                    .dout = args.in[0].as<A>() + shape_.out_at(number),
                    .out = args.in[2].as<A>() + shape_.out_at(number),
                    .lse = args.in[3].as<float>() + number * shape_.length,
                    .dq = dqkv + shape_.qkv_at(number, 0),
                    .number = number};
    tiles.load_keys(qkv + shape_.qkv_at(number, 1), qkv + shape_.qkv_at(number, 2));
    for (int64_t first = 0; first < shape_.length; first += Tiles::kStrip) {
      const int64_t rows = std::min(Tiles::kStrip, shape_.length - first), keys = whole_panels(first + rows);
      tiles.load_queries(unit.q + first * shape_.qkv_row(), unit.dout + first * shape_.out_row(), rows);
      for (int64_t at = 0; at < rows; at += Tiles::kBlock)
        run_block(args, unit, {first + at, std::min(Tiles::kBlock, rows - at), at}, keys, tiles);
      tiles.add_key_gradients(first, rows);
    }
    tiles.store_key_gradients(dqkv + shape_.qkv_at(number, 1), dqkv + shape_.qkv_at(number, 2));
  }

  // `keys`: up to which the strip's rows of probabilities and of dS are filled.
  void run_block(const KernelArgs& args, const Unit& unit, const Block& block, int64_t keys,
                 Tiles& tiles) const {
    const DropoutMask mask = dropout_.mask(*args.state);
    float dots[Tiles::kBlock], scales[Tiles::kBlock];
    std::fill_n(scales, Tiles::kBlock, shape_.scale);
    for (int64_t i = 0; i < block.rows; ++i) {
      const int64_t at = (block.query + i) * shape_.out_row();
      dots[i] = row_dot(unit.dout + at, unit.out + at, shape_.head_size);
    }
    for (int64_t key = 0; key < keys; key += kPanel) {
      if (key < block.keys()) tiles.multiply(block, key);
      for (int64_t i = 0; i < Tiles::whole_rows(block.rows); ++i) {
        const int64_t query = block.query + i, row = block.at + i;
        const int64_t valid = i < block.rows ? std::clamp<int64_t>(query + 1 - key, 0, kPanel) : 0;
        if (valid > 0)
          gradient_row(mask, shape_.probability_at(*args.state, unit.number, query) + key, unit.lse[query],
                       dots[i], valid, tiles.score_scale(), tiles.scores(row, key),
                       tiles.score_gradients(row, key));
        tiles.take_row(row, key, valid);
      }
    }
    this->deliver(tiles.columns(), block.rows, scales, unit.dq + block.query * shape_.qkv_row(),
                  shape_.qkv_row(), [&](int64_t c) { return tiles.query_gradients(block, c); });
  }

  static float row_dot(const A* a, const A* b, int64_t n) {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < n; ++c) sum += load(a[c]) * load(b[c]);
    return sum;
  }

  // From scores and dP of one panel, in place: the dropped probabilities, and dS.
  static void gradient_row(const DropoutMask& mask, uint64_t index, float lse, float dot, int64_t valid,
                           float scale, float* scores, float* dp) {
    float keep[kPanel];
    std::fill_n(keep, kPanel, 1.0f);
    if (mask.active()) mask.multipliers(index, valid, keep);
    const int64_t end = whole_vectors(valid);
#pragma omp simd
    for (int64_t j = 0; j < end; ++j) {
      const float probability = j < valid ? fast_exp(scores[j] * scale - lse) : 0.0f;
      scores[j] = probability * keep[j];
      dp[j] = probability * (dp[j] * keep[j] - dot);
    }
  }
};

}  // namespace recollect::cpu
