// What the AMX attention kernels share: probabilities and their gradients are rounded to bf16 for the
// products, in two parts, everything else is float. Blocks are 32 x 32. Only for files that have tested
// RECOLLECT_AMX.
#pragma once

#include "engine/ops/cpu/amx_tile.h"
#include "engine/ops/cpu/attention.h"

#ifdef RECOLLECT_AMX

namespace recollect::cpu {

// high + low is from, to about 16 bits. Goes in steps of 32.
inline void store_parts(const float* from, int64_t n, bf16* high, bf16* low) {
  const __m512i first_half = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i second_half = _mm512_add_epi32(first_half, _mm512_set1_epi32(8));
  for (int64_t j = 0; j < n; j += 32) {
    const __m512 first = _mm512_loadu_ps(from + j), second = _mm512_loadu_ps(from + j + 16);
    const __m512i rounded = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first));
    // As words, the odd elements are in place with others below them, and the even ones have to be shifted
    // there.
    const __m512 even = _mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xffff, rounded, 16));
    const __m512 odd = _mm512_castsi512_ps(_mm512_and_si512(rounded, _mm512_set1_epi32(-65536)));
    const __m512 first_high = _mm512_permutex2var_ps(even, first_half, odd);
    const __m512 second_high = _mm512_permutex2var_ps(even, second_half, odd);
    const __m512i rest = reinterpret_cast<__m512i>(
        _mm512_cvtne2ps_pbh(_mm512_sub_ps(second, second_high), _mm512_sub_ps(first, first_high)));
    _mm512_storeu_si512(high + j, rounded);
    _mm512_storeu_si512(low + j, rest);
  }
}

class AmxTiles {
 public:
  using Element = bf16;
  using Registers = amx::TileRegisters;
  static constexpr int64_t kBlock = 32;

  explicit AmxTiles(const AttentionShape& shape)
      : shape_(shape),
        size_((shape.head_size + kBlock - 1) / kBlock * kBlock),
        keys_(whole_panels(shape.length)),
        sizes_(size_ / kBlock) {}

  std::size_t bytes() const { return bytes_; }
  float score_scale() const { return shape_.scale; }
  static constexpr int64_t columns() { return kBlock; }

 protected:
  // Two bf16 numbers for each float.
  struct Parts {
    bf16 *high, *low;
    Parts from(int64_t at) const { return {high + at, low + at}; }
    void clear(int64_t first, int64_t last) const {
      std::fill(high + first, high + last, bf16{});
      std::fill(low + first, low + last, bf16{});
    }
  };

  static int64_t blocks(int64_t rows) { return (rows + kBlock - 1) / kBlock; }

  // Rows of k or v as columns of a right operand: scores of 32 keys per panel. Zeros fill the last block.
  void pack_by_key(const bf16* from, int64_t keys, bf16* to) const {
    const int64_t row = shape_.kv_row;
    for (int64_t key = 0; key < keys; key += kBlock)
      amx::pack(from + key * row, row, false, false, keys - key, shape_.head_size, to + key * size_);
  }
  // Rows of k or v as the depth of a right operand: 32 of the head's numbers per panel.
  void pack_by_size(const bf16* from, int64_t keys, bf16* to) const {
    for (int64_t c = 0; c < shape_.head_size; c += kBlock)
      amx::pack(from + c, shape_.kv_row, true, false, shape_.head_size - c, keys, to + c * keys_);
  }
  // `rows` rows, zero up to the padded size and to whole blocks of rows.
  void copy_rows(const bf16* from, int64_t stride, int64_t rows, bf16* to) const {
    for (int64_t i = 0; i < blocks(rows) * kBlock; ++i) {
      const int64_t n = i < rows ? shape_.head_size : 0;
      std::copy_n(from + i * stride, n, to + i * size_);
      std::fill_n(to + i * size_ + n, size_ - n, bf16{});
    }
  }
  // 32 rows of `left`, of `steps` blocks each, that far apart, times as many blocks of `right`; both parts.
  Sums multiply_parts(const Parts& left, int64_t row, const bf16* right, int64_t steps) {
    amx::clear_sums();
    amx::multiply_rows(left.high, row, right, steps);
    amx::multiply_rows(left.low, row, right, steps);
    amx::store_sums(sums_, kBlock);
    return {sums_, kBlock};
  }

  const AttentionShape& shape_;
  int64_t size_, keys_;  // head_size, padded; length, padded to whole panels
  int64_t sizes_;        // blocks in size_
  std::size_t bytes_ = 0;

 private:
  alignas(64) float sums_[kBlock * kBlock];
};

}  // namespace recollect::cpu

#endif
