// Causal attention, forward, in bf16 on AMX.
#include "engine/ops/cpu/amx_attention.h"

#include <cmath>

#include "engine/ops/cpu/kernels.h"
#include "engine/ops/cpu/simd_math.h"

namespace recollect::cpu {

#ifdef RECOLLECT_AMX

namespace {

constexpr int64_t kQueries = 64;  // of a strip

class AmxAttention : public Kernel {
 public:
  explicit AmxAttention(const OpView& view) : shape_(view), dropout_(view.attributes()) {}

  std::size_t workspace_bytes() const override { return shape_.threads * Scratch(shape_, nullptr).bytes; }

  void run(const KernelArgs& args) override {
    parallel_ranges(shape_.threads, shape_.units(), [&](int64_t first, int64_t last, int part) {
      const Scratch scratch(shape_, args.workspace + part * (workspace_bytes() / shape_.threads));
      const amx::TileRegisters registers;
      for (int64_t unit = first; unit < last; ++unit) run_unit(args, unit, scratch);
    });
  }

 private:
  struct Scratch {
    Scratch(const AmxAttentionShape& shape, std::byte* start) {
      Pieces pieces(start);
      k = pieces.take<bf16>(shape.keys * shape.size);
      v = pieces.take<bf16>(shape.keys * shape.size);
      q = pieces.take<bf16>(kQueries * shape.size);
      score_row = shape.keys + 16;
      probability_row = shape.keys + 32;
      scores = pieces.take<float>(kQueries * score_row);
      high = pieces.take<bf16>(kQueries * probability_row);
      low = pieces.take<bf16>(kQueries * probability_row);
      bytes = pieces.used();
    }
    bf16 *k, *v, *q;
    bf16 *high, *low;  // probabilities
    float* scores;
    int64_t score_row, probability_row;
    std::size_t bytes;
  };

  void run_unit(const KernelArgs& args, int64_t unit, const Scratch& s) const {
    const bf16* qkv = args.in[0].as<bf16>();
    shape_.pack_by_key(qkv + shape_.qkv_at(unit, 1), s.k);
    shape_.pack_by_size(qkv + shape_.qkv_at(unit, 2), s.v);
    for (int64_t first = 0; first < shape_.length; first += kQueries) {
      const int64_t rows = std::min(kQueries, shape_.length - first);
      shape_.copy_rows(qkv + shape_.qkv_at(unit, 0) + first * shape_.qkv_row(), shape_.qkv_row(), rows, s.q);
      for (int64_t i = 0; i < rows; i += kBlock)
        run_block(args, unit, first + i, std::min(kBlock, rows - i), i, s);
    }
  }

  // `rows` queries from `query`, which are rows of the strip from `at`.
  void run_block(const KernelArgs& args, int64_t unit, int64_t query, int64_t rows, int64_t at,
                 const Scratch& s) const {
    const int64_t blocks = query / kBlock + 1;  // of keys: the last one is cut by the diagonal
    float* scores = s.scores + at * s.score_row;
    bf16 *high = s.high + at * s.probability_row, *low = s.low + at * s.probability_row;
    for (int64_t j = 0; j < blocks; ++j) {
      amx::clear_sums();
      amx::multiply_rows(s.q + at * shape_.size, shape_.size, s.k + j * kBlock * shape_.size, shape_.sizes);
      amx::store_sums(scores + j * kBlock, s.score_row);
    }
    const DropoutMask mask = dropout_.mask(*args.state);
    float* lse = args.out[1].as<float>() + unit * shape_.length + query;
    float inverse[kBlock];
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t valid = query + i + 1;
      const int64_t row = i * s.probability_row;
      inverse[i] = 1.0f / softmax_row(mask, shape_.probability_at(*args.state, unit, query + i), valid,
                                      scores + i * s.score_row, high + row, low + row, lse + i);
      std::fill(high + row + whole_vectors(valid), high + row + blocks * kBlock, bf16{});
      std::fill(low + row + whole_vectors(valid), low + row + blocks * kBlock, bf16{});
    }
    bf16* out = args.out[0].as<bf16>() + shape_.out_at(unit) + query * shape_.out_row();
    for (int64_t c = 0; c < shape_.head_size; c += kBlock) {
      alignas(64) float sums[kBlock * kBlock];
      amx::clear_sums();
      amx::multiply_rows(high, s.probability_row, s.v + c * shape_.keys, blocks);
      amx::multiply_rows(low, s.probability_row, s.v + c * shape_.keys, blocks);
      amx::store_sums(sums, kBlock);
      const int64_t columns = std::min(kBlock, shape_.head_size - c);
      for (int64_t i = 0; i < rows; ++i)
#pragma omp simd
        for (int64_t e = 0; e < columns; ++e)
          store(out + i * shape_.out_row() + c + e, sums[i * kBlock + e] * inverse[i]);
    }
  }

  // From the first `valid` products: the exponentials of their scaled distances from the greatest, dropped.
  // Returns the exponentials' sum.
  float softmax_row(const DropoutMask& mask, uint64_t index, int64_t valid, float* scores, bf16* high,
                    bf16* low, float* lse) const {
    const float scale = shape_.scale;
    const float top = greatest(scores, valid) * scale;
    float sum = 0.0f;
    const int64_t end = whole_vectors(valid);
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < end; ++j) {
      scores[j] = j < valid ? fast_exp(scores[j] * scale - top) : 0.0f;
      sum += scores[j];
    }
    if (mask.active()) {
      float keep[kPanel];
      for (int64_t first = 0; first < valid; first += kPanel) {
        const int64_t n = std::min(kPanel, valid - first);
        mask.multipliers(index + first, n, keep);
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) scores[first + j] *= keep[j];
      }
    }
    store_parts(scores, end, high, low);
    *lse = top + std::log(sum);
    return sum;
  }

  AmxAttentionShape shape_;
  Dropout dropout_;
};

}  // namespace

KernelPointer make_amx_attention(const OpView& view) {
  if (view.in(0).dtype != DType::kBF16 || !amx::available()) return nullptr;
  return std::make_unique<AmxAttention>(view);
}

#else

KernelPointer make_amx_attention(const OpView&) { return nullptr; }

#endif

}  // namespace recollect::cpu
