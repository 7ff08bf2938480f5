// Attention, backward, in bf16 on AMX. Scores come and go panel by panel, since lse makes every
// probability at once; a strip of probabilities and of their gradients is kept for the three products that
// they enter. dk and dv are summed up transposed, so that the strip need not be.
#include "engine/ops/cpu/attention_amx.h"
#include "engine/ops/cpu/attention_backward.h"

namespace recollect::cpu {

#ifdef RECOLLECT_AMX

namespace {

class AmxBackwardTiles : public AmxTiles {
 public:
  static constexpr int64_t kStrip = 128, kKeys = kAllKeys;

  AmxBackwardTiles(const AttentionShape& shape, std::byte* start) : AmxTiles(shape), row_(keys_ + 32) {
    Scratch scratch(start);
    const int64_t head = keys_ * size_, strip = kStrip * size_;
    for (bf16** of_head : {&k_by_key_, &v_by_key_, &k_by_size_}) *of_head = scratch.take<bf16>(head);
    for (bf16** of_strip : {&q_, &dout_, &q_transposed_, &dout_transposed_})
      *of_strip = scratch.take<bf16>(strip);
    for (bf16** part : {&p_.high, &p_.low, &ds_.high, &ds_.low}) *part = scratch.take<bf16>(kStrip * row_);
    packed_ = scratch.take<bf16>(2 * kStrip * kBlock);
    dk_ = scratch.take<float>(head);
    dv_ = scratch.take<float>(head);
    bytes_ = scratch.used();
  }

  void load_keys(const bf16* k, const bf16* v, int64_t keys) {
    pack_by_key(k, keys, k_by_key_);
    pack_by_key(v, keys, v_by_key_);
    pack_by_size(k, keys, k_by_size_);
    std::fill_n(dk_, whole_panels(keys) * size_, 0.0f);
    std::fill_n(dv_, whole_panels(keys) * size_, 0.0f);
  }
  void load_queries(const bf16* q, const bf16* dout, int64_t rows) {
    copy_rows(q, shape_.q_row, rows, q_);
    copy_rows(dout, shape_.out_row, rows, dout_);
    transpose_rows(q_, blocks(rows), q_transposed_);
    transpose_rows(dout_, blocks(rows), dout_transposed_);
  }

  static int64_t whole_rows(int64_t) { return kBlock; }
  void multiply(const Block& block, int64_t key) {
    multiply_panel(q_ + block.at * size_, k_by_key_, key, block.keys, scores_);
    multiply_panel(dout_ + block.at * size_, v_by_key_, key, block.keys, dp_);
  }
  float* scores(int64_t row, int64_t) { return scores_ + row % kBlock * kPanel; }
  float* score_gradients(int64_t row, int64_t) { return dp_ + row % kBlock * kPanel; }
  void take_row(int64_t row, int64_t key, int64_t end) {
    const Parts p = p_.from(row * row_ + key), ds = ds_.from(row * row_ + key);
    const int64_t stored = whole_vectors(end);
    store_parts(scores(row, key), stored, p.high, p.low);
    store_parts(score_gradients(row, key), stored, ds.high, ds.low);
    p.clear(stored, kPanel);
    ds.clear(stored, kPanel);
  }

  // query_gradients() multiplies all keys at once.
  void add_query_gradients(const Block&, int64_t, int64_t, bool) {}
  Sums query_gradients(const Block& block, int64_t c) {
    return multiply_parts(ds_.from(block.at * row_ + block.from), row_,
                          k_by_size_ + c * keys_ + block.from * kBlock,
                          blocks(block.keys) - block.from / kBlock);
  }
  void add_key_gradients(int64_t rows, int64_t from, int64_t keys) {
    for (int64_t j = from / kBlock; j < blocks(keys); ++j) {
      add_products(p_, dout_transposed_, blocks(rows), j, dv_);
      add_products(ds_, q_transposed_, blocks(rows), j, dk_);
    }
  }
  void store_key_gradients(bf16* dk, bf16* dv, int64_t keys) const {
    store_transposed(dk_, shape_.scale, keys, dk);
    store_transposed(dv_, 1.0f, keys, dv);
  }

 private:
  // [kStrip, size] to [size, kStrip], whole blocks.
  void transpose_rows(const bf16* from, int64_t steps, bf16* to) const {
    __m512i low[16], high[16];
    for (int64_t i = 0; i < steps * kBlock; i += kBlock)
      for (int64_t c = 0; c < size_; c += kBlock) {
        amx::load_pairs(from + i * size_ + c, size_, kBlock, kBlock, low, high);
        transpose_pairs(low);
        transpose_pairs(high);
        for (int64_t e = 0; e < 16; ++e) {
          _mm512_storeu_si512(to + (c + e) * kStrip + i, low[e]);
          _mm512_storeu_si512(to + (c + 16 + e) * kStrip + i, high[e]);
        }
      }
  }

  // 32 rows against those of one panel's keys that count.
  void multiply_panel(const bf16* left, const bf16* right, int64_t key, int64_t keys, float* to) const {
    for (int64_t j = 0; j < kPanel && key + j < keys; j += kBlock) {
      amx::clear_sums();
      amx::multiply_rows(left, size_, right + (key + j) * size_, sizes_);
      amx::store_sums(to + j, kPanel);
    }
  }

  // sums [size, keys] += left [size, queries] times the strip's columns of key block j.
  void add_products(const Parts& strip, const bf16* left, int64_t steps, int64_t j, float* sums) const {
    bf16* low = packed_ + kStrip * kBlock;
    amx::pack(strip.high + j * kBlock, row_, true, false, kBlock, steps * kBlock, packed_);
    amx::pack(strip.low + j * kBlock, row_, true, false, kBlock, steps * kBlock, low);
    for (int64_t c = 0; c < sizes_; ++c) {
      float* block = sums + (j * sizes_ + c) * kBlock * kBlock;
      amx::load_sums(block, kBlock);
      amx::multiply_rows(left + c * kBlock * kStrip, kStrip, packed_, steps);
      amx::multiply_rows(left + c * kBlock * kStrip, kStrip, low, steps);
      amx::store_sums(block, kBlock);
    }
  }

  // Blocks of [size, keys] to rows of dk or dv.
  void store_transposed(const float* sums, float scale, int64_t keys, bf16* to) const {
    __m512i words[16];
    for (int64_t key = 0; key < keys; key += 16)
      for (int64_t c = 0; c < shape_.head_size; c += 16) {
        const float* from = sums + (key / kBlock * sizes_ + c / kBlock) * kBlock * kBlock +
                            c % kBlock * kBlock + key % kBlock;
        for (int64_t e = 0; e < 16; ++e) words[e] = _mm512_loadu_si512(from + e * kBlock);
        transpose_pairs(words);
        alignas(64) float rows[16][16];
        for (int64_t e = 0; e < 16; ++e) _mm512_store_si512(rows[e], words[e]);
        const int64_t columns = std::min<int64_t>(16, shape_.head_size - c);
        for (int64_t i = 0; i < std::min<int64_t>(16, keys - key); ++i)
#pragma omp simd
          for (int64_t e = 0; e < columns; ++e)
            store(to + (key + i) * shape_.kv_row + c + e, scale * rows[i][e]);
      }
  }

  bf16 *k_by_key_, *v_by_key_, *k_by_size_;
  bf16 *q_, *dout_;                        // [kStrip, size]
  bf16 *q_transposed_, *dout_transposed_;  // [size, kStrip]
  Parts p_, ds_;                           // [kStrip, row]: dropped probabilities, gradients of scores
  bf16* packed_;
  float *dk_, *dv_;  // blocks of [size, keys], block (c, j) is number j * sizes + c
  int64_t row_;
  alignas(64) float scores_[kBlock * kPanel];  // of one panel
  alignas(64) float dp_[kBlock * kPanel];
};

}  // namespace

KernelPointer make_amx_attention_backward(const OpView& view) {
  if (view.in(0).dtype != DType::kBF16 || !amx::available()) return nullptr;
  return std::make_unique<AttentionBackward<AmxBackwardTiles>>(view);
}

#else

KernelPointer make_amx_attention_backward(const OpView&) { return nullptr; }

#endif

}  // namespace recollect::cpu
