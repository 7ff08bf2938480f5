// Causal attention, backward, in bf16 on AMX. Scores come and go block by block, since lse makes every
// probability at once; a strip of probabilities and of their gradients is kept for the three products that
// they enter. dk and dv are summed up transposed, so that the strip need not be.
#include "engine/ops/cpu/amx_attention.h"

#include "engine/ops/cpu/kernels.h"
#include "engine/ops/cpu/simd_math.h"

namespace recollect::cpu {

#ifdef RECOLLECT_AMX

namespace {

constexpr int64_t kQueries = 128;  // of a strip

class AmxAttentionBackward : public Kernel {
 public:
  explicit AmxAttentionBackward(const OpView& view) : shape_(view), dropout_(view.attributes()) {}

  std::size_t workspace_bytes() const override { return shape_.threads * Scratch(shape_, nullptr).bytes; }

  void run(const KernelArgs& args) override {
    parallel_ranges(shape_.threads, shape_.units(), [&](int64_t first, int64_t last, int part) {
      const Scratch scratch(shape_, args.workspace + part * (workspace_bytes() / shape_.threads));
      const amx::TileRegisters registers;
      for (int64_t unit = first; unit < last; ++unit) run_unit(args, unit, scratch);
    });
  }

 private:
  struct Parts {
    bf16 *high, *low;
    Parts from(int64_t at) const { return {high + at, low + at}; }
  };

  struct Scratch {
    Scratch(const AmxAttentionShape& shape, std::byte* start) {
      Pieces pieces(start);
      const int64_t head = shape.keys * shape.size, strip = kQueries * shape.size;
      k_by_key = pieces.take<bf16>(head);
      v_by_key = pieces.take<bf16>(head);
      k_by_size = pieces.take<bf16>(head);
      q = pieces.take<bf16>(strip);
      dout = pieces.take<bf16>(strip);
      q_transposed = pieces.take<bf16>(strip);
      dout_transposed = pieces.take<bf16>(strip);
      row = shape.keys + 32;
      for (bf16** part : {&p.high, &p.low, &ds.high, &ds.low}) *part = pieces.take<bf16>(kQueries * row);
      packed = pieces.take<bf16>(2 * kQueries * kBlock);
      dk = pieces.take<float>(head);
      dv = pieces.take<float>(head);
      bytes = pieces.used();
    }
    bf16 *k_by_key, *v_by_key, *k_by_size;
    bf16 *q, *dout;                        // [kQueries, size]
    bf16 *q_transposed, *dout_transposed;  // [size, kQueries]
    Parts p, ds;                           // [kQueries, row]: dropped probabilities, gradients of scores
    bf16* packed;
    float *dk, *dv;  // blocks of [size, keys], block (c, j) is number j * sizes + c
    int64_t row;
    std::size_t bytes;
  };

  struct Unit {
    const bf16 *q, *dout, *out;
    const float* lse;
    bf16* dqkv;
    int64_t number;
  };

  void run_unit(const KernelArgs& args, int64_t number, const Scratch& s) const {
    const bf16* qkv = args.in[1].as<bf16>();
    const Unit unit{.q = qkv + shape_.qkv_at(number, 0),
                    .dout = args.in[0].as<bf16>() + shape_.out_at(number),
                    .out = args.in[2].as<bf16>() + shape_.out_at(number),
                    .lse = args.in[3].as<float>() + number * shape_.length,
                    .dqkv = args.out[0].as<bf16>(),
                    .number = number};
    shape_.pack_by_key(qkv + shape_.qkv_at(number, 1), s.k_by_key);
    shape_.pack_by_key(qkv + shape_.qkv_at(number, 2), s.v_by_key);
    shape_.pack_by_size(qkv + shape_.qkv_at(number, 1), s.k_by_size);
    std::fill_n(s.dk, shape_.keys * shape_.size, 0.0f);
    std::fill_n(s.dv, shape_.keys * shape_.size, 0.0f);
    for (int64_t first = 0; first < shape_.length; first += kQueries) strip(args, unit, first, s);
    store_transposed(s.dk, shape_.scale, unit.dqkv + shape_.qkv_at(number, 1));
    store_transposed(s.dv, 1.0f, unit.dqkv + shape_.qkv_at(number, 2));
  }

  void strip(const KernelArgs& args, const Unit& unit, int64_t first, const Scratch& s) const {
    const int64_t rows = std::min(kQueries, shape_.length - first);
    const int64_t row_blocks = (rows + kBlock - 1) / kBlock, key_blocks = first / kBlock + row_blocks;
    const int64_t panels = (key_blocks * kBlock + kPanel - 1) / kPanel;
    shape_.copy_rows(unit.q + first * shape_.qkv_row(), shape_.qkv_row(), rows, s.q);
    shape_.copy_rows(unit.dout + first * shape_.out_row(), shape_.out_row(), rows, s.dout);
    transpose_rows(s.q, row_blocks, s.q_transposed);
    transpose_rows(s.dout, row_blocks, s.dout_transposed);
    for (int64_t i = 0; i < row_blocks; ++i) {
      score_gradients(args, unit, first + i * kBlock, std::min(kBlock, rows - i * kBlock), i * kBlock, panels,
                      s);
      query_gradient(unit, first + i * kBlock, std::min(kBlock, rows - i * kBlock), i * kBlock, s);
    }
    for (int64_t j = 0; j < key_blocks; ++j) {
      add_products(s.p, s.dout_transposed, row_blocks, j, s, s.dv);
      add_products(s.ds, s.q_transposed, row_blocks, j, s, s.dk);
    }
  }

  // [kQueries, size] to [size, kQueries], whole blocks.
  void transpose_rows(const bf16* from, int64_t row_blocks, bf16* to) const {
    __m512i low[16], high[16];
    for (int64_t i = 0; i < row_blocks * kBlock; i += kBlock)
      for (int64_t c = 0; c < shape_.size; c += kBlock) {
        amx::load_pairs(from + i * shape_.size + c, shape_.size, kBlock, kBlock, low, high);
        amx::transpose(low);
        amx::transpose(high);
        for (int64_t e = 0; e < 16; ++e) {
          _mm512_storeu_si512(to + (c + e) * kQueries + i, low[e]);
          _mm512_storeu_si512(to + (c + 16 + e) * kQueries + i, high[e]);
        }
      }
  }

  // Rows `at` to `at` + 31 of p and ds, of which `rows` are queries from `query`; zero where nothing is
  // attended to.
  void score_gradients(const KernelArgs& args, const Unit& unit, int64_t query, int64_t rows, int64_t at,
                       int64_t panels, const Scratch& s) const {
    alignas(64) float scores[kBlock * kPanel], dp[kBlock * kPanel];
    const DropoutMask mask = dropout_.mask(*args.state);
    float dots[kBlock];
    for (int64_t i = 0; i < rows; ++i)
      dots[i] = row_dot(s.dout + (at + i) * shape_.size, unit.out + (query + i) * shape_.out_row());
    for (int64_t panel = 0; panel < panels; ++panel) {
      const int64_t key = panel * kPanel;
      if (key < query + rows) {
        block_products(s.q + at * shape_.size, s.k_by_key, key, query, scores);
        block_products(s.dout + at * shape_.size, s.v_by_key, key, query, dp);
      }
      for (int64_t i = 0; i < kBlock; ++i) {
        const int64_t valid = i < rows ? std::clamp<int64_t>(query + i + 1 - key, 0, kPanel) : 0;
        const Parts p = s.p.from((at + i) * s.row + key), ds = s.ds.from((at + i) * s.row + key);
        if (valid > 0)
          gradient_row(mask, shape_.probability_at(*args.state, unit.number, query + i) + key,
                       unit.lse[query + i], dots[i], valid, scores + i * kPanel, dp + i * kPanel, p, ds);
        for (bf16* part : {p.high, p.low, ds.high, ds.low})
          std::fill(part + whole_vectors(valid), part + kPanel, bf16{});
      }
    }
  }

  // 32 rows against the keys of one panel, as far as the causal mask lets the last of them see.
  void block_products(const bf16* left, const bf16* right, int64_t key, int64_t query, float* to) const {
    for (int64_t j = 0; j < kPanel && key + j < query + kBlock; j += kBlock) {
      amx::clear_sums();
      amx::multiply_rows(left, shape_.size, right + (key + j) * shape_.size, shape_.sizes);
      amx::store_sums(to + j, kPanel);
    }
  }

  float row_dot(const bf16* a, const bf16* b) const {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < shape_.head_size; ++c) sum += load(a[c]) * load(b[c]);
    return sum;
  }

  void gradient_row(const DropoutMask& mask, uint64_t index, float lse, float dot, int64_t valid,
                    float* scores, float* dp, Parts p, Parts ds) const {
    const float scale = shape_.scale;
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
    store_parts(scores, end, p.high, p.low);
    store_parts(dp, end, ds.high, ds.low);
  }

  void query_gradient(const Unit& unit, int64_t query, int64_t rows, int64_t at, const Scratch& s) const {
    bf16* dq = unit.dqkv + shape_.qkv_at(unit.number, 0) + query * shape_.qkv_row();
    for (int64_t c = 0; c < shape_.head_size; c += kBlock) {
      alignas(64) float sums[kBlock * kBlock];
      amx::clear_sums();
      for (const bf16* part : {s.ds.high, s.ds.low})
        amx::multiply_rows(part + at * s.row, s.row, s.k_by_size + c * shape_.keys, query / kBlock + 1);
      amx::store_sums(sums, kBlock);
      const int64_t columns = std::min(kBlock, shape_.head_size - c);
      for (int64_t i = 0; i < rows; ++i)
#pragma omp simd
        for (int64_t e = 0; e < columns; ++e)
          store(dq + i * shape_.qkv_row() + c + e, shape_.scale * sums[i * kBlock + e]);
    }
  }

  // sums [size, keys] += left [size, queries] times the strip's columns of key block j.
  void add_products(const Parts& strip, const bf16* left, int64_t row_blocks, int64_t j, const Scratch& s,
                    float* sums) const {
    bf16* low = s.packed + kQueries * kBlock;
    amx::pack(strip.high + j * kBlock, s.row, true, false, kBlock, row_blocks * kBlock, s.packed);
    amx::pack(strip.low + j * kBlock, s.row, true, false, kBlock, row_blocks * kBlock, low);
    for (int64_t c = 0; c < shape_.sizes; ++c) {
      float* block = sums + (j * shape_.sizes + c) * kBlock * kBlock;
      amx::load_sums(block, kBlock);
      amx::multiply_rows(left + c * kBlock * kQueries, kQueries, s.packed, row_blocks);
      amx::multiply_rows(left + c * kBlock * kQueries, kQueries, low, row_blocks);
      amx::store_sums(block, kBlock);
    }
  }

  // Blocks of [size, keys] to rows of dqkv.
  void store_transposed(const float* blocks, float scale, bf16* to) const {
    __m512i words[16];
    for (int64_t key = 0; key < shape_.length; key += 16)
      for (int64_t c = 0; c < shape_.head_size; c += 16) {
        const float* from = blocks + (key / kBlock * shape_.sizes + c / kBlock) * kBlock * kBlock +
                            c % kBlock * kBlock + key % kBlock;
        for (int64_t e = 0; e < 16; ++e) words[e] = _mm512_loadu_si512(from + e * kBlock);
        amx::transpose(words);
        alignas(64) float rows[16][16];
        for (int64_t e = 0; e < 16; ++e) _mm512_store_si512(rows[e], words[e]);
        const int64_t columns = std::min<int64_t>(16, shape_.head_size - c);
        for (int64_t i = 0; i < std::min<int64_t>(16, shape_.length - key); ++i)
#pragma omp simd
          for (int64_t e = 0; e < columns; ++e)
            store(to + (key + i) * shape_.qkv_row() + c + e, scale * rows[i][e]);
      }
  }

  AmxAttentionShape shape_;
  Dropout dropout_;
};

}  // namespace

KernelPointer make_amx_attention_backward(const OpView& view) {
  if (view.in(0).dtype != DType::kBF16 || !amx::available()) return nullptr;
  return std::make_unique<AmxAttentionBackward>(view);
}

#else

KernelPointer make_amx_attention_backward(const OpView&) { return nullptr; }

#endif

}  // namespace recollect::cpu
