// Attention on CPUs: the loops over segments, heads, strips of queries and rows of scores, which are the same
// whatever multiplies matrices. Tiles do that, and say how operands lie in a thread's scratch: vectors in
// attention.cpp and attention_backward.cpp, Intel's matrix tiles in attention_amx*.cpp.
//
// A strip is kStrip queries of one head, which meet the keys that the last of them sees block by block,
// kBlock queries at a time. A thread holds one strip of scores and one head's keys and values, so memory grows with
// s, never with s * s. Every number of a head is computed by one thread in a fixed order. Keys that no query
// sees are not read and cost no time, nor do panels of keys before a block's window. A segment is computed alone:
// a sequence has the same bits in a sample that it shares as in a sample of its own.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/ops/attention.h"
#include "engine/ops/cpu/dropout_mask.h"
#include "engine/ops/cpu/element.h"
#include "engine/ops/cpu/kernels.h"
#include "engine/ops/cpu/simd_math.h"
#include "engine/ops/cpu/tile_product.h"

namespace recollect::cpu {

// Rows of scores are worked on in whole vectors, without remainders: what lies beyond the valid ones is set
// to zero.
inline int64_t whole_vectors(int64_t n) { return (n + 31) / 32 * 32; }  // of bf16

inline int64_t whole_panels(int64_t n) { return (n + kPanel - 1) / kPanel * kPanel; }

// Cuts a thread's scratch into arrays that begin on cache lines; without memory it only measures.
class Scratch {
 public:
  explicit Scratch(std::byte* start) : start_(start) {}
  template <typename T>
  T* take(int64_t count) {
    const std::size_t at = used_;
    used_ += (sizeof(T) * count + 63) / 64 * 64;
    return start_ ? reinterpret_cast<T*>(start_ + at) : nullptr;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* start_;
  std::size_t used_ = 0;
};

// `rows` queries of a segment from `query` on, which are rows of their strip from `at` on.
struct Block {
  int64_t query, rows, at;
  int64_t from,
      keys;  // `from`: the panel with the first key that a row sees; `keys`: the end of the keys that the last row sees
};

// In a row of scores, the keys [first, end) that its query sees.
struct Valid {
  int64_t first, end;
};

struct Sums {
  const float* at;
  int64_t row;  // from one to the next
};

// The tiles of either direction have
//   Element, kStrip, kBlock     where a strip is whole blocks, and the last one of a sample may be cut
//   Registers                   that a thread holds while it works
//   Tiles(shape, start), bytes()
//                               of scratch that may be null, for its size
//   score_scale(), columns()    by which scores are still to be multiplied; how many of Sums are made at a
//   time
template <typename Tiles>
class AttentionKernel : public Kernel {
 public:
  AttentionKernel(const OpView& view, const AttentionInputs& inputs)
      : shape_(view, inputs), inputs_(inputs), dropout_(view.attributes()), threads_(omp_get_max_threads()) {}

  std::size_t workspace_bytes() const override { return threads_ * thread_bytes(); }

  // Threads get consecutive units, and by number of keys equal shares of the work.
  void run(const KernelArgs& args) override {
    const AttentionRows in(args.in, inputs_);
    int64_t all = 0, units = 0;
    for_each_segment(shape_, in, [&](const AttentionSegment& segment) {
      all += units_of_segment() * work(segment);
      units += units_of_segment();
    });
    parallel_ranges(units > 1 ? threads_ : 1, threads_, [&](int64_t begin, int64_t end, int part) {
      const int64_t first = share_begin(in, all * begin / threads_),
                    last = share_begin(in, all * end / threads_);
      if (first == last) return;
      [[maybe_unused]] const typename Tiles::Registers registers;
      Tiles tiles(shape_, args.workspace + part * thread_bytes());
      run_share(args, in, first, last, tiles);
    });
  }

 protected:
  using A = typename Tiles::Element;
  using Segment = AttentionSegment;

  // Units are what one thread computes: query heads or key/value heads of a segment, [first, last) of them.
  virtual int64_t units_of_segment() const = 0;
  virtual void run_units(const KernelArgs& args, const AttentionRows& in, const Segment& segment,
                         int64_t first, int64_t last, Tiles& tiles) const = 0;

  // The first of `rows` queries has the lowest first key, the last one the highest end.
  Block block(int64_t query, int64_t rows, int64_t at, int64_t keys) const {
    return {query, rows, at, first_panel(query, keys), shape_.seen(query + rows - 1, keys)};
  }
  int64_t first_panel(int64_t query, int64_t keys) const {
    return shape_.first_seen(query, keys) / kPanel * kPanel;
  }

  // Multiplies a row's stored scores by `scale` and caps them.
  void cap_scores(float* row, const Valid& valid, float scale) const {
    const float inverse = scale / shape_.cap;
#pragma omp simd
    for (int64_t j = valid.first; j < valid.end; ++j) row[j] = shape_.cap * fast_tanh(row[j] * inverse);
  }

  // to[i, 0..head_size) = factors[i] times the sums of the block's row i; `make(c)` makes those from column c
  // on.
  template <typename Make>
  void deliver(int64_t columns_at_once, int64_t rows, const float* factors, A* to, int64_t to_row,
               Make make) const {
    for (int64_t c = 0; c < shape_.head_size; c += columns_at_once) {
      const Sums sums = make(c);
      const int64_t columns = std::min(columns_at_once, shape_.head_size - c);
      for (int64_t i = 0; i < rows; ++i)
#pragma omp simd
        for (int64_t e = 0; e < columns; ++e)
          store(to + i * to_row + c + e, sums.at[i * sums.row + e] * factors[i]);
    }
  }

  AttentionShape shape_;
  AttentionInputs inputs_;
  Dropout dropout_;
  int threads_;

 private:
  std::size_t thread_bytes() const { return Tiles(shape_, nullptr).bytes(); }

  // Pairs of a query and a key that it sees, of one unit; padding is no more than written.
  int64_t work(const Segment& segment) const {
    return std::max<int64_t>(1, shape_.pairs(segment.tokens, segment.keys));
  }

  // The unit, numbered segment by segment, that has so much work before it.
  int64_t share_begin(const AttentionRows& in, int64_t wanted) const {
    int64_t before = 0, unit = 0;
    for_each_segment(shape_, in, [&](const Segment& segment) {
      const int64_t each = work(segment);
      unit += std::clamp<int64_t>((wanted - before) / each, 0, units_of_segment());
      before += units_of_segment() * each;
    });
    return unit;
  }

  void run_share(const KernelArgs& args, const AttentionRows& in, int64_t first, int64_t last,
                 Tiles& tiles) const {
    const int64_t units = units_of_segment();
    for_each_segment(shape_, in, [&](const Segment& segment) {
      const int64_t begin = std::clamp<int64_t>(first, 0, units), end = std::clamp<int64_t>(last, 0, units);
      if (begin < end) run_units(args, in, segment, begin, end, tiles);
      first -= units;
      last -= units;
    });
  }
};

// Forward. Its tiles also have
//   load_keys(k, v, keys)       of one head, the first `keys` rows of either
//   load_queries(q, rows)       of one strip
//   multiply(block), scores(row)
//                               a block's scores, and one row of them, which is made into probabilities
//   take_probabilities(block, row, end)
//                               keeps the row for outputs(): up to `end` its probabilities, after it zeros
//   outputs(block, c)           Sums of the block, from column c on
template <typename Tiles>
class Attention : public AttentionKernel<Tiles> {
  using Base = AttentionKernel<Tiles>;
  using Base::dropout_, Base::shape_;
  using typename Base::A;
  using typename Base::Segment;

 public:
  explicit Attention(const OpView& view) : Base(view, kAttentionInputs) {}

 private:
  // Of a segment.
  struct Unit {
    const A* q;
    A* out;
    float* lse;
    int64_t number, first;  // the head's number; the segment's first token
  };

  int64_t units_of_segment() const override { return shape_.heads; }

  // Query heads that share keys and values follow each other.
  void run_units(const KernelArgs& args, const AttentionRows& in, const Segment& segment, int64_t first,
                 int64_t last, Tiles& tiles) const override {
    const int64_t token = segment.first;
    const A* kv = in.kv.as<A>() + token * shape_.kv_row;
    for (int64_t head = first, loaded = -1; head < last; ++head) {
      const int64_t n = shape_.unit(segment.sample, head), kv_unit = shape_.kv_unit(n);
      const Unit unit{.q = in.q.as<A>() + shape_.q_at(n) + token * shape_.q_row,
                      .out = args.out[0].as<A>() + shape_.out_at(n) + token * shape_.out_row,
                      .lse = args.out[1].as<float>() + n * shape_.length + token,
                      .number = n,
                      .first = token};
      if (segment.keys == 0) {
        clear(unit, segment.tokens);
        continue;
      }
      if (kv_unit != loaded)
        tiles.load_keys(kv + shape_.k_at(kv_unit), kv + shape_.v_at(kv_unit), segment.keys);
      loaded = kv_unit;
      run_unit(args, unit, segment, tiles);
    }
  }

  void clear(const Unit& unit, int64_t tokens) const {
    for (int64_t i = 0; i < tokens; ++i) std::fill_n(unit.out + i * shape_.out_row, shape_.head_size, A{});
    std::fill_n(unit.lse, tokens, 0.0f);
  }

  void run_unit(const KernelArgs& args, const Unit& unit, const Segment& segment, Tiles& tiles) const {
    for (int64_t first = 0; first < segment.tokens; first += Tiles::kStrip) {
      const int64_t rows = std::min(Tiles::kStrip, segment.tokens - first);
      tiles.load_queries(unit.q + first * shape_.q_row, rows);
      for (int64_t at = 0; at < rows; at += Tiles::kBlock)
        run_block(args, unit, this->block(first + at, std::min(Tiles::kBlock, rows - at), at, segment.keys),
                  tiles);
    }
  }

  void run_block(const KernelArgs& args, const Unit& unit, const Block& block, Tiles& tiles) const {
    tiles.multiply(block);
    const DropoutMask mask = dropout_.mask(*args.state);
    float inverse[Tiles::kBlock];
    for (int64_t i = 0; i < block.rows; ++i) {
      const int64_t query = block.query + i;
      const int64_t end = shape_.seen(query, block.keys);
      const Valid valid{shape_.first_seen(query, block.keys) - block.from, end - block.from};
      float* row = tiles.scores(block.at + i) + block.from;
      float scale = tiles.score_scale();
      if (shape_.cap > 0) this->cap_scores(row, valid, scale), scale = 1.0f;
      inverse[i] = 1.0f / softmax_row(row, valid, scale, unit.lse + query);
      if (mask.active())
        drop(mask,
             shape_.probability_at(*args.state, unit.number, unit.first + query) + unit.first + block.from,
             valid.end, row);
      tiles.take_probabilities(block, block.at + i, end);
    }
    A* out = unit.out + block.query * shape_.out_row;
    this->deliver(tiles.columns(), block.rows, inverse, out, shape_.out_row,
                  [&](int64_t c) { return tiles.outputs(block, c); });
  }

  // Replaces the valid scores by exponentials of their differences from the maximum; the scores
  // before them and the rest of the last vector become zero. Returns the sum of the exponentials.
  static float softmax_row(float* row, const Valid& valid, float scale, float* lse) {
    const float top = greatest(row + valid.first, valid.end - valid.first) * scale;
    float sum = 0.0f;
    const int64_t first = valid.first, last = valid.end, end = whole_vectors(last);
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < end; ++j) {
      row[j] = j >= first && j < last ? fast_exp(row[j] * scale - top) : 0.0f;
      sum += row[j];
    }
    *lse = top + std::log(sum);
    return sum;
  }

  static void drop(const DropoutMask& mask, uint64_t index, int64_t valid, float* row) {
    float keep[kPanel];
    for (int64_t first = 0; first < valid; first += kPanel) {
      const int64_t n = std::min(kPanel, valid - first);
      mask.multipliers(index + first, n, keep);
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) row[first + j] *= keep[j];
    }
  }
};

// For bf16 where the processor has AMX; null elsewhere.
KernelPointer make_amx_attention(const OpView& view);
KernelPointer make_amx_attention_backward(const OpView& view);

}  // namespace recollect::cpu
